/* When a parent ends, its living child gets another parent, who reaps it. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("orphan")) {
        pid_t before = atoi(arg(1)), teller = atoi(arg(2));
        until(getppid() != before);
        check(kill(teller, SIGUSR1) == 0);
        pause_forever();
    }
    if (role("child")) {
        dprintf(1, "%d\n", spawn_child("orphan", text(getpid()), arg(1)));
        return hear(0) == 'g' ? 28 : 1;
    }
    block(SIGUSR1);
    struct piped child = spawn_piped("child", text(getpid()));
    pid_t orphan = atoi(hear_line(child.out));
    until(stat_field(orphan, 1) == child.pid);
    say(child.in, 'g');
    check(exited(wait_status(child.pid), 28));
    check(take(SIGUSR1).si_pid == orphan);
    check(stat_field(orphan, 1) != child.pid && stat_field(orphan, 1) != getpid());
    check(kill(orphan, SIGTERM) == 0);
    until(kill(orphan, 0) == -1 && errno == ESRCH);
    return ok();
}
