/* Each time that a timer is set it goes off once, not before its time, and says which it was. */
#include "prog.h"
#include <time.h>

enum { FOR_MS = 1200 };

static double now(void)
{
    struct timespec t;
    check(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    block(SIGRTMIN);
    unsigned seed = (unsigned)getpid();
    double begun = now();
    for (int round = 1; now() < begun + FOR_MS; round++) {
        long us = 1 + rand_r(&seed) % 4000;
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN, .sigev_value.sival_int = round};
        struct itimerspec once = {.it_value = {0, us * 1000}};
        timer_t timer;
        check(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 && timer_settime(timer, 0, &once, NULL) == 0);
        siginfo_t info = take(SIGRTMIN);
        check(info.si_code == SI_TIMER && info.si_value.sival_int == round);
        check(timer_delete(timer) == 0);
    }
    alarm(0);
    block(SIGALRM);
    for (begun = now(); now() < begun + FOR_MS;) {
        long us = 1 + rand_r(&seed) % 4000;
        struct itimerval once = {.it_value = {0, us}};
        double at = now();
        check(setitimer(ITIMER_REAL, &once, NULL) == 0);
        siginfo_t info = take(SIGALRM);
        double late = now() - at;
        check(info.si_code == SI_KERNEL && late > (double)us / 1e3 - 0.1);
    }
    return ok();
}
