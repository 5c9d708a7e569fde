/* /proc shows a grandchild with its parent, and with another one when that has ended. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("orphan"))
        pause_forever();
    if (role("child")) {
        dprintf(1, "%d\n", spawn_child("orphan"));
        return hear(0) == 'g' ? 28 : 1;
    }
    struct piped child = spawn_piped("child");
    pid_t orphan = atoi(hear_line(child.out));
    until(stat_field(orphan, 1) == child.pid);
    say(child.in, 'g');
    check(exited(wait_status(child.pid), 28));
    until(stat_field(orphan, 1) != child.pid);
    check(stat_field(orphan, 1) > 0 && stat_field(orphan, 1) != getpid());
    check(kill(orphan, SIGTERM) == 0);
    until(stat_field(orphan, 1) == -1);
    return ok();
}
