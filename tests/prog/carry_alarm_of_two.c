/* An interval timer goes off while the signal of another timer waits, which is the same: once that is taken it goes on. */
#include "prog.h"
#include <time.h>

int main(int argc, char **argv)
{
    begin_carried(argc, argv);
    sigset_t set, waits;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    check(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    timer_t timer;
    struct itimerspec seldom = {.it_value = {0, 1000}, .it_interval = {1000, 0}};
    check(timer_create(CLOCK_MONOTONIC, NULL, &timer) == 0 && timer_settime(timer, 0, &seldom, NULL) == 0);
    until(sigpending(&waits) == 0 && sigismember(&waits, SIGALRM));
    struct itimerval in = {.it_value = {0, 1000}, .it_interval = {0, 200000}}, got;
    check(setitimer(ITIMER_REAL, &in, NULL) == 0);
    until(getitimer(ITIMER_REAL, &got) == 0 && got.it_value.tv_sec == 0 && got.it_value.tv_usec == 0);

    phase();

    siginfo_t info;
    for (int i = 0, one, of_timer = 0; i < 4; i++) {
        while ((one = sigtimedwait(&set, &info, &(struct timespec){10, 0})) == -1 && errno == EINTR)
            ;
        check(one == SIGALRM);
        of_timer += info.si_code == SI_TIMER;
        check(of_timer == 1 && (i == 0) == (info.si_code == SI_TIMER));
    }
    check(setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL) == 0 && timer_delete(timer) == 0);
    return ok();
}
