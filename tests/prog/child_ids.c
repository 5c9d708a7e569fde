/* The forked PID is the child's PID; the child's parent, group and session are the caller's. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        dprintf(1, "%d %d %d %d\n", getpid(), getppid(), getpgrp(), getsid(0));
        check(getpgid(0) == getpgrp() && gettid() == getpid());
        return hear(0) == 'g' ? 0 : 1;
    }
    struct piped child = spawn_piped("child");
    char want[64];
    snprintf(want, sizeof want, "%d %d %d %d", child.pid, getpid(), getpgrp(), getsid(0));
    check(strcmp(hear_line(child.out), want) == 0);
    check(getpgid(child.pid) == getpgrp() && getsid(child.pid) == getsid(0));
    check(stat_field(child.pid, 1) == getpid());
    say(child.in, 'g');
    check(exited(wait_status(child.pid), 0));
    return ok();
}
