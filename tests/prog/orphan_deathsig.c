/* PR_SET_PDEATHSIG: the child gets the signal when its parent ends, from the parent's PID. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("orphan")) {
        pid_t parent = atoi(arg(1)), teller = atoi(arg(2));
        block(SIGUSR1);
        check(prctl(PR_SET_PDEATHSIG, SIGUSR1) == 0 && getppid() == parent);
        say(1, 'r');
        check(take(SIGUSR1).si_pid == parent);
        check(kill(teller, SIGUSR2) == 0);
        return 0;
    }
    if (role("child")) {
        spawn_child("orphan", text(getpid()), arg(1));
        pause_forever();
    }
    block(SIGUSR2);
    struct piped child = spawn_piped("child", text(getpid()));
    check(hear(child.out) == 'r');
    check(kill(child.pid, SIGKILL) == 0 && killed(wait_status(child.pid), SIGKILL));
    take(SIGUSR2);
    return ok();
}
