/* When a parent ends, its living child gets another parent, who reaps it. */
#include "prog.h"

/* Tells `teller` by signal who is our parent now. */
static void tell_parent(pid_t teller)
{
    union sigval parent = {.sival_int = getppid()};
    check(sigqueue(teller, SIGUSR1, parent) == 0);
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("orphan")) {
        pid_t before = atoi(arg(1)), teller = atoi(arg(2));
        tell_parent(teller);
        until(getppid() != before);
        tell_parent(teller);
        pause_forever();
    }
    if (role("child")) {
        dprintf(1, "%d\n", spawn_child("orphan", text(getpid()), arg(1)));
        return hear(0) == 'g' ? 28 : 1;
    }
    block(SIGUSR1);
    struct piped child = spawn_piped("child", text(getpid()));
    pid_t orphan = atoi(hear_line(child.out));
    siginfo_t told = take(SIGUSR1);
    check(told.si_pid == orphan && told.si_value.sival_int == child.pid);
    say(child.in, 'g');
    check(exited(wait_status(child.pid), 28));
    told = take(SIGUSR1);
    check(told.si_pid == orphan && told.si_value.sival_int != child.pid && told.si_value.sival_int != getpid());
    check(waitpid(orphan, NULL, 0) == -1 && errno == ECHILD);
    check(kill(orphan, SIGTERM) == 0);
    until(kill(orphan, 0) == -1 && errno == ESRCH);
    return ok();
}
