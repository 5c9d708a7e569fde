/* Interval timers, timers of timer_create with their ids, timerfds and alarms go off when they were to, and CLOCK_MONOTONIC goes on. */
#include "prog.h"
#include <sys/timerfd.h>

static double now(void)
{
    struct timespec t;
    check(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* A journey may interrupt it (signal(7)). */
static int taken(const sigset_t *set, siginfo_t *info)
{
    int got;
    while ((got = sigwaitinfo(set, info)) == -1 && errno == EINTR)
        ;
    return got;
}

int main(int argc, char **argv)
{
    begin_carried(argc, argv);
    sigset_t set;
    siginfo_t info;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    sigaddset(&set, SIGVTALRM);
    check(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    block(SIGRTMIN + 1);
    timer_t first, second, third, of_thread, of_time_used;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN, .sigev_value.sival_int = 42};
    for (int i = 0; i < 5000; i++) /* so that numbers are high */
        check(timer_create(CLOCK_MONOTONIC, &event, &first) == 0 && timer_delete(first) == 0);
    check(timer_create(CLOCK_MONOTONIC, &event, &first) == 0 && timer_create(CLOCK_REALTIME, &event, &second) == 0);
    check(timer_delete(first) == 0);
    event.sigev_notify = SIGEV_NONE;
    check(timer_create(CLOCK_MONOTONIC, &event, &third) == 0);
    /* For this thread alone, and by the time that the process has had a processor for. */
    struct sigevent to_thread = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN + 1, .sigev_value.sival_int = 43};
    to_thread._sigev_un._tid = gettid();
    check(timer_create(CLOCK_MONOTONIC, &to_thread, &of_thread) == 0);
    check(timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &of_time_used) == 0);
    struct itimerspec in = {.it_value = {2, 0}, .it_interval = {100, 0}}, left;
    double begin_at = now();
    check(timer_settime(second, 0, &in, NULL) == 0 && timer_settime(third, 0, &in, NULL) == 0);
    struct itimerspec often = {.it_value = {0, 300000000}, .it_interval = {0, 200000000}};
    check(timer_settime(of_thread, 0, &often, NULL) == 0 && timer_settime(of_time_used, 0, &in, NULL) == 0);
    struct itimerval profiled = {.it_value = {30, 0}, .it_interval = {4, 250000}};
    check(setitimer(ITIMER_PROF, &profiled, NULL) == 0);
    struct itimerval virtual = {.it_value = {20, 0}, .it_interval = {3, 500000}}, got;
    check(setitimer(ITIMER_VIRTUAL, &virtual, NULL) == 0);
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), ticked = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), again = timerfd_create(CLOCK_MONOTONIC, 0);
    check(fd >= 0 && ticked >= 0 && timerfd_settime(fd, 0, &in, NULL) == 0);
    struct itimerspec soon = {.it_value = {0, 1000}};
    check(timerfd_settime(ticked, 0, &soon, NULL) == 0);
    struct pollfd ready = {.fd = ticked, .events = POLLIN};
    check(poll(&ready, 1, 5000) == 1);
    /* It stands still until it is read, and then goes on. */
    struct itimerspec soon_and_again = {.it_value = {0, 1000}, .it_interval = {60, 0}};
    check(again >= 0 && timerfd_settime(again, 0, &soon_and_again, NULL) == 0);
    ready.fd = again;
    check(poll(&ready, 1, 5000) == 1);

    phase();

    check(read(again, &(uint64_t){0}, 8) == 8 && timerfd_gettime(again, &left) == 0);
    check(left.it_interval.tv_sec == 60 && left.it_value.tv_sec >= 40 && left.it_value.tv_sec <= 60);

    check(now() >= begin_at);
    uint64_t ticks;
    check(read(ticked, &ticks, 8) == 8 && ticks == 1);
    check(getitimer(ITIMER_VIRTUAL, &got) == 0 && got.it_value.tv_sec >= 15 && got.it_value.tv_sec <= 20);
    check(got.it_interval.tv_sec == 3 && got.it_interval.tv_usec == 500000);
    check(getitimer(ITIMER_PROF, &got) == 0 && got.it_value.tv_sec >= 25 && got.it_value.tv_sec <= 30);
    check(got.it_interval.tv_sec == 4 && got.it_interval.tv_usec == 250000);
    sigset_t for_thread = set_of(SIGRTMIN + 1);
    for (int i = 0; i < 3; i++)
        check(taken(&for_thread, &info) == SIGRTMIN + 1 && info.si_value.sival_int == 43 && info.si_code == SI_TIMER);
    check(timer_gettime(of_thread, &left) == 0 && left.it_interval.tv_nsec == 200000000 && left.it_value.tv_nsec <= 200000000);
    check(timer_gettime(of_time_used, &left) == 0 && left.it_value.tv_sec <= 2 && left.it_interval.tv_sec == 100);
    check(timer_delete(of_thread) == 0 && timer_delete(of_time_used) == 0);
    check(timer_gettime(first, &left) == -1 && errno == EINVAL);
    check(timer_gettime(third, &left) == 0 && left.it_interval.tv_sec == 100);
    check(taken(&set, &info) == SIGRTMIN && info.si_value.sival_int == 42 && info.si_code == SI_TIMER);
    check(now() - begin_at >= 1.99); /* not before its time */
    ready.fd = fd;
    check(poll(&ready, 1, 5000) == 1 && read(fd, &ticks, 8) == 8 && ticks == 1 && now() - begin_at >= 1.99);
    check(timerfd_gettime(fd, &left) == 0 && left.it_interval.tv_sec == 100 && left.it_value.tv_sec >= 80);
    check(timer_delete(second) == 0 && timer_delete(third) == 0);
    check(alarm(0) > 10);
    return ok();
}
