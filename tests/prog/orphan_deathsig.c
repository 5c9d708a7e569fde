/* PR_SET_PDEATHSIG: the child gets the signal when its parent ends, from the parent's PID. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("orphan")) {
        pid_t parent = atoi(arg(1));
        block(SIGUSR1);
        check(prctl(PR_SET_PDEATHSIG, SIGUSR1) == 0 && getppid() == parent);
        say(1, 'r');
        siginfo_t info = take(SIGUSR1);
        check(info.si_pid == parent);
        say(1, 'd');
        return 0;
    }
    if (role("child")) {
        spawn_child("orphan", text(getpid()));
        pause_forever();
    }
    struct piped child = spawn_piped("child");
    check(hear(child.out) == 'r' && kill(child.pid, SIGKILL) == 0);
    check(killed(wait_status(child.pid), SIGKILL));
    check(hear(child.out) == 'd' && hear(child.out) == -1);
    return ok();
}
