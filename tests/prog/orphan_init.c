/* When a parent ends, its living child gets another parent, who reaps it. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("orphan")) {
        pid_t before = atoi(arg(1));
        check(getppid() == before);
        dprintf(1, "%d\n", getpid());
        until(getppid() != before);
        say(1, 'o');
        return hear(0) == -1 ? 0 : 1;
    }
    if (role("child")) {
        pid_t orphan = spawn_child("orphan", text(getpid()));
        dprintf(1, "%d\n", orphan);
        return hear(0) == 'g' ? 28 : 1;
    }
    struct piped child = spawn_piped("child");
    pid_t a = atoi(hear_line(child.out)), b = atoi(hear_line(child.out));
    check(a == b && a > 1 && stat_field(a, 1) == child.pid);
    say(child.in, 'g');
    check(exited(wait_status(child.pid), 28));
    check(hear(child.out) == 'o' && kill(a, 0) == 0);
    check(stat_field(a, 1) != child.pid && stat_field(a, 1) != getpid());
    close(child.in);
    until(kill(a, 0) == -1 && errno == ESRCH);
    return ok();
}
