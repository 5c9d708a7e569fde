/* setsid by a child elsewhere: leader of a new session and group without a terminal, seen so by its parent. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        check(setsid() == getpid() && getsid(0) == getpid() && getpgrp() == getpid());
        check(open("/dev/tty", O_RDWR) == -1 && errno == ENXIO);
        check(setsid() == -1 && errno == EPERM);
        pid_t sid = getpid(), own = fork_child();
        if (own == 0)
            _exit(getsid(0) == sid && getpgrp() == sid ? 0 : 1);
        check(exited(wait_status(own), 0));
        say(1, 'r');
        return hear(0) == -1 ? 0 : 1;
    }
    struct piped child = spawn_piped("child");
    check(hear(child.out) == 'r');
    check(getsid(child.pid) == child.pid && getpgid(child.pid) == child.pid);
    check(stat_field(child.pid, 3) == child.pid && stat_field(child.pid, 2) == child.pid);
    close(child.in);
    check(exited(wait_status(child.pid), 0));
    return ok();
}
