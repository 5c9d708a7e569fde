/* What setpgid refuses: EACCES after exec, EPERM for a leader or a group that is not there, ESRCH, EINVAL. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        if (*arg(1) == 's')
            check(setsid() == getpid());
        say(1, 'r');
        return hear(0) == -1 ? 0 : 1;
    }
    struct piped child = spawn_piped("child", "-"), other = spawn_piped("child", "s");
    check(hear(child.out) == 'r' && hear(other.out) == 'r');
    check(setpgid(child.pid, child.pid) == -1 && errno == EACCES);
    check(setpgid(other.pid, getpgrp()) == -1 && errno == EPERM);
    check(setpgid(0, -1) == -1 && errno == EINVAL);
    check(setpgid(getppid(), 0) == -1 && errno == ESRCH);
    check(setpgid(4194303, 0) == -1 && errno == ESRCH);
    check(getpgid(4194303) == -1 && errno == ESRCH && getsid(4194303) == -1 && errno == ESRCH);
    pid_t fresh = fork_child();
    if (fresh == 0) {
        check(setpgid(0, other.pid) == -1 && errno == EPERM);
        check(setpgid(0, 4194303) == -1 && errno == EPERM);
        check(setsid() == getpid() && setpgid(0, 0) == -1 && errno == EPERM);
        check(setsid() == -1 && errno == EPERM);
        _exit(0);
    }
    check(exited(wait_status(fresh), 0));
    close(child.in);
    close(other.in);
    check(exited(wait_status(child.pid), 0) && exited(wait_status(other.pid), 0));
    return ok();
}
