/* vfork: the parent goes on only when the child has executed or exited; the child's PID and code are right. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child"))
        return getppid() == atoi(arg(1)) ? 9 : 1;
    const char *me = text(getpid());
    volatile int seen = 0;
    pid_t child = vfork();
    if (child == 0) {
        nanosleep(&(struct timespec){.tv_nsec = 50 * 1000 * 1000}, NULL);
        seen = 1;
        execl("/proc/self/exe", "vfork_exec", "child", me, NULL);
        _exit(127);
    }
    check(child > 0 && seen == 1 && exited(wait_status(child), 9));

    child = vfork();
    if (child == 0) {
        nanosleep(&(struct timespec){.tv_nsec = 50 * 1000 * 1000}, NULL);
        seen = 2;
        _exit(3);
    }
    check(seen == 2 && exited(wait_status(child), 3));
    return ok();
}
