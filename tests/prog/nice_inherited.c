/* The nice value goes to a child elsewhere, and to what it forks. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        int want = atoi(arg(1));
        check(getpriority(PRIO_PROCESS, 0) == want);
        pid_t own = fork_child();
        if (own == 0)
            _exit(getpriority(PRIO_PROCESS, 0) == want ? 0 : 1);
        return exited(wait_status(own), 0) ? 0 : 1;
    }
    int now = getpriority(PRIO_PROCESS, 0), want = now < 15 ? now + 4 : 19;
    check(setpriority(PRIO_PROCESS, 0, want) == 0);
    check(exited(wait_status(spawn_child("child", text(want))), 0));
    return ok();
}
