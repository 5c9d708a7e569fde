/* clone3 refuses CLONE_PARENT together with an exit signal (clone(2) takes both): the child ends with the signal with
 * which its maker ends. */
#include "prog.h"
#include <linux/sched.h>

int main(int argc, char **argv)
{
    begin(argc, argv);
    pid_t maker = fork_child();
    if (maker == 0) {
        struct clone_args how = {.flags = CLONE_PARENT, .exit_signal = SIGCHLD};
        check(syscall(SYS_clone3, &how, sizeof how) == -1 && errno == EINVAL);
        how.exit_signal = 0;
        long sibling = syscall(SYS_clone3, &how, sizeof how);
        check(sibling >= 0);
        _exit(sibling == 0 ? 6 : 4);
    }
    /* Not __WALL: the sibling has taken over SIGCHLD. */
    int codes = 0;
    for (int i = 0; i < 2; i++) {
        int status;
        check(waitpid(-1, &status, 0) > 0 && WIFEXITED(status));
        codes += WEXITSTATUS(status);
    }
    check(codes == 10);
    return ok();
}
