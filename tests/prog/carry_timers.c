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

/* By the time that a thread that does nothing has had a processor for. */
static timer_t of_idler;
static pthread_barrier_t made, over;

static void *idles(void *arg)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN};
    struct itimerspec in = {.it_value = {1000, 0}};
    event._sigev_un._tid = gettid();
    check(timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &of_idler) == 0 && timer_settime(of_idler, 0, &in, NULL) == 0);
    pthread_barrier_wait(&made);
    pthread_barrier_wait(&over);
    return arg;
}

static double left_of_idler(void)
{
    struct itimerspec left;
    check(timer_gettime(of_idler, &left) == 0);
    return (double)left.it_value.tv_sec + (double)left.it_value.tv_nsec / 1e9;
}

static double used(void)
{
    struct timespec t;
    check(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
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
    block(SIGRTMIN + 1), block(SIGRTMIN + 2), block(SIGRTMIN + 3), block(SIGRTMIN + 4);
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
    pthread_t idler;
    check(pthread_barrier_init(&made, NULL, 2) == 0 && pthread_barrier_init(&over, NULL, 2) == 0);
    check(pthread_create(&idler, NULL, idles, NULL) == 0);
    pthread_barrier_wait(&made);
    /* It has gone off, of which nobody hears yet, and does so once until then: for the process, and for a thread. */
    timer_t rings, rings_thread, rings_often;
    struct sigevent ringing = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 2, .sigev_value.sival_int = 44};
    struct itimerspec at_once_and_again = {.it_value = {0, 1000}, .it_interval = {50, 0}};
    check(timer_create(CLOCK_MONOTONIC, &ringing, &rings) == 0 && timer_settime(rings, 0, &at_once_and_again, NULL) == 0);
    struct itimerspec twice_a_second = {.it_value = {0, 1000}, .it_interval = {0, 500000000}};
    ringing.sigev_signo = SIGRTMIN + 4;
    check(timer_create(CLOCK_MONOTONIC, &ringing, &rings_often) == 0 && timer_settime(rings_often, 0, &twice_a_second, NULL) == 0);
    ringing.sigev_notify = SIGEV_THREAD_ID, ringing.sigev_signo = SIGRTMIN + 3;
    ringing._sigev_un._tid = gettid();
    check(timer_create(CLOCK_BOOTTIME, &ringing, &rings_thread) == 0 && timer_settime(rings_thread, 0, &at_once_and_again, NULL) == 0);
    /* It stands still until it is read, and then goes on. */
    struct itimerspec soon_and_again = {.it_value = {0, 1000}, .it_interval = {60, 0}};
    check(again >= 0 && timerfd_settime(again, 0, &soon_and_again, NULL) == 0);
    ready.fd = again;
    check(poll(&ready, 1, 5000) == 1);

    phase();

    check(read(again, &(uint64_t){0}, 8) == 8 && timerfd_gettime(again, &left) == 0);
    check(left.it_interval.tv_sec == 60 && left.it_value.tv_sec >= 40 && left.it_value.tv_sec <= 60);

    for (int i = 2; i < 4; i++) {
        sigset_t of_ringing = set_of(SIGRTMIN + i);
        timer_t timer = i == 2 ? rings : rings_thread;
        check(taken(&of_ringing, &info) == SIGRTMIN + i && info.si_code == SI_TIMER && info.si_value.sival_int == 44);
        check(sigtimedwait(&of_ringing, &info, &(struct timespec){0, 0}) == -1 && timer_getoverrun(timer) == 0);
        /* When it goes off next does not depend on when that was. */
        double next = now() - begin_at;
        check(timer_gettime(timer, &left) == 0 && left.it_interval.tv_sec == 50);
        next += (double)left.it_value.tv_sec + (double)left.it_value.tv_nsec / 1e9;
        if (next < 49.9 || next > 60)
            dprintf(2, "timer %d goes off at %.3f s\n", i, next);
        check(next >= 49.9 && next <= 60 && timer_delete(timer) == 0);
    }
    /* However often it would have gone off since; not while that is looked at. */
    sigset_t of_often = set_of(SIGRTMIN + 4);
    usleep(600000);
    check(timer_gettime(rings_often, &left) == 0 && left.it_interval.tv_nsec == 500000000);
    if (left.it_value.tv_nsec < 100000000)
        usleep(200000);
    check(taken(&of_often, &info) == SIGRTMIN + 4 && info.si_code == SI_TIMER && info.si_value.sival_int == 44);
    check(sigtimedwait(&of_often, &info, &(struct timespec){0, 0}) == -1 && timer_delete(rings_often) == 0);
    double left_before = left_of_idler();
    for (double since = used(); used() - since < 0.1;)
        ;
    check(left_before <= 1000 && left_before > 990 && left_before - left_of_idler() < 0.05);
    pthread_barrier_wait(&over);
    check(pthread_join(idler, NULL) == 0 && timer_delete(of_idler) == 0);
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
