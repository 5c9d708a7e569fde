/* alarm, setitimer and timer_create signal their own process with the right code. */
#include "prog.h"
#include <time.h>

int main(int argc, char **argv)
{
    begin(argc, argv);
    block(SIGVTALRM);
    block(SIGRTMIN);
    struct itimerval cpu = {.it_value = {0, 10000}};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN, .sigev_value.sival_int = 3};
    struct itimerspec soon = {.it_value = {0, 10000000}};
    sigset_t pending;
    timer_t timer;
    check(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 && timer_settime(timer, 0, &soon, NULL) == 0);
    siginfo_t info = take(SIGRTMIN);
    check(info.si_code == SI_TIMER && info.si_value.sival_int == 3);
    check(setitimer(ITIMER_VIRTUAL, &cpu, NULL) == 0);
    do
        check(sigpending(&pending) == 0);
    while (!sigismember(&pending, SIGVTALRM));
    check(take(SIGVTALRM).si_code == SI_KERNEL);
    alarm(0);
    block(SIGALRM);
    struct itimerval real = {.it_value = {0, 10000}};
    check(setitimer(ITIMER_REAL, &real, NULL) == 0 && take(SIGALRM).si_code == SI_KERNEL);
    return ok();
}
