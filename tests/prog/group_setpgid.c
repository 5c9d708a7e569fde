/* setpgid makes a group, lets a sibling join, and by the parent for its child; getpgid tells it everywhere. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        check(setpgid(0, *arg(1) ? atoi(arg(1)) : 0) == 0);
        dprintf(1, "%d\n", getpgrp());
        return hear(0) == -1 ? 0 : 1;
    }
    struct piped lead = spawn_piped("child");
    check(atoi(hear_line(lead.out)) == lead.pid && getpgid(lead.pid) == lead.pid);
    check(stat_field(lead.pid, 2) == lead.pid);
    struct piped second = spawn_piped("child", text(lead.pid));
    check(atoi(hear_line(second.out)) == lead.pid && getpgid(second.pid) == lead.pid);
    pid_t third = fork_child();
    if (third == 0)
        _exit(pause_forever());
    check(setpgid(third, lead.pid) == 0 && getpgid(third) == lead.pid);
    check(setpgid(third, 0) == 0 && getpgid(third) == third);
    check(setpgid(third, getpgrp()) == 0 && getpgid(third) == getpgrp());
    check(kill(third, SIGKILL) == 0 && killed(wait_status(third), SIGKILL));
    close(lead.in);
    close(second.in);
    check(exited(wait_status(lead.pid), 0) && exited(wait_status(second.pid), 0));
    check(kill(-lead.pid, 0) == -1 && errno == ESRCH);
    return ok();
}
