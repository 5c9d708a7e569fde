/* An interval timer that has gone off, and whose signal waits, goes on once that is taken. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin_carried(argc, argv);
    sigset_t set, waits;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    check(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    struct itimerval in = {.it_value = {0, 1000}, .it_interval = {0, 200000}}, got;
    check(setitimer(ITIMER_REAL, &in, NULL) == 0);
    until(sigpending(&waits) == 0 && sigismember(&waits, SIGALRM));

    phase();

    for (int i = 0, one; i < 4; i++) {
        while ((one = sigtimedwait(&set, NULL, &(struct timespec){10, 0})) == -1 && errno == EINTR)
            ;
        check(one == SIGALRM);
    }
    check(getitimer(ITIMER_REAL, &got) == 0 && got.it_interval.tv_usec == 200000 && got.it_value.tv_sec == 0);
    check(setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL) == 0);
    return ok();
}
