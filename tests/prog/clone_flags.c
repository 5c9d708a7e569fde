/* clone with CLONE_VM and an exit signal that is not SIGCHLD: __WCLONE waits for it, plain waitpid does not see it. */
#include "prog.h"

static int value;
static char stack[65536] __attribute__((aligned(16)));

static int body(void *arg)
{
    value = *(int *)arg;
    return 5;
}

int main(int argc, char **argv)
{
    int given = 42, status;
    begin(argc, argv);
    block(SIGUSR1);
    pid_t child = clone(body, stack + sizeof stack, CLONE_VM | CLONE_FILES | SIGUSR1, &given);
    check(child > 0);
    siginfo_t info = take(SIGUSR1);
    check(info.si_code == CLD_EXITED && info.si_pid == child && info.si_status == 5);
    check(waitpid(-1, &status, WNOHANG) == -1 && errno == ECHILD);
    check(waitpid(child, &status, __WCLONE) == child && exited(status, 5));
    check(value == 42);
    return ok();
}
