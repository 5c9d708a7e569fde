/* Real-time signals queue: 200 of one number arrive all and in order; a plain signal pends once. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        block(SIGRTMIN + 3);
        block(SIGUSR1);
        say(1, 'r');
        check(hear(0) == 'g');
        for (int i = 0; i < 200; i++)
            check(take(SIGRTMIN + 3).si_value.sival_int == i);
        take(SIGUSR1);
        struct timespec none = {0, 0};
        sigset_t set = set_of(SIGUSR1);
        check(sigtimedwait(&set, NULL, &none) == -1 && errno == EAGAIN);
        return 0;
    }
    struct piped child = spawn_piped("child");
    check(hear(child.out) == 'r');
    check(kill(child.pid, SIGUSR1) == 0 && kill(child.pid, SIGUSR1) == 0);
    for (int i = 0; i < 200; i++) {
        union sigval value = {.sival_int = i};
        check(sigqueue(child.pid, SIGRTMIN + 3, value) == 0);
    }
    say(child.in, 'g');
    check(exited(wait_status(child.pid), 0));
    return ok();
}
