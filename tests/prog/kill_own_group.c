/* kill(0) by a child elsewhere reaches its group: its parent's other children, and itself. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("stay")) {
        say(1, 'r');
        pause_forever();
    }
    if (role("killer")) {
        check(hear(0) == 'g');
        check(kill(0, SIGTERM) == 0);
        pause_forever();
    }
    pid_t lead = fork_child();
    if (lead == 0) {
        block(SIGTERM);
        check(setpgid(0, 0) == 0);
        sigset_t mask = set_of(SIGTERM);
        struct sigaction act = {.sa_handler = SIG_DFL};
        check(sigprocmask(SIG_UNBLOCK, &mask, NULL) == 0);
        struct piped stay = spawn_piped("stay"), killer = spawn_piped("killer");
        act.sa_handler = SIG_IGN; /* after the spawn: the children have the default */
        check(hear(stay.out) == 'r' && sigaction(SIGTERM, &act, NULL) == 0);
        say(killer.in, 'g');
        check(killed(wait_status(stay.pid), SIGTERM) && killed(wait_status(killer.pid), SIGTERM));
        _exit(37);
    }
    check(exited(wait_status(lead), 37));
    return ok();
}
