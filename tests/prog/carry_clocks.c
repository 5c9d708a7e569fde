/* The clocks that count from the start of a machine go on for a process that is carried to another one, however that one counts: they never go back, by the vdso as by the
 * system call, in any thread, and absolute times in them mean what they meant. */
#include "prog.h"
#include <stdatomic.h>
#include <sys/timerfd.h>

enum { WAIT_MS = 1500, LATE_MS = 2500, SHORT_MS = 60, WATCHERS = 3 };
static const int kinds[] = {CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_MONOTONIC_COARSE};
enum { KINDS = sizeof kinds / sizeof *kinds };

static _Atomic long long latest[KINDS]; /* that any thread has seen */
static atomic_int over;

static long long ns(struct timespec t) { return t.tv_sec * 1000000000LL + t.tv_nsec; }
static struct timespec at(long long ns) { return (struct timespec){ns / 1000000000, ns % 1000000000}; }

static long long now(int clock)
{
    struct timespec t;
    check(clock_gettime(clock, &t) == 0);
    return ns(t);
}

static long long by_call(int clock)
{
    struct timespec t;
    check(syscall(SYS_clock_gettime, clock, &t) == 0);
    return ns(t);
}

static void see(int i, long long (*look)(int))
{
    long long before = atomic_load(&latest[i]), seen = look(kinds[i]);
    if (seen < before)
        dprintf(2, "clock %d went back by %lld ns (%s)\n", kinds[i], before - seen, look == now ? "vdso" : "call");
    check(seen >= before);
    while (seen > before && !atomic_compare_exchange_weak(&latest[i], &before, seen))
        ;
}

static void *watch(void *unused)
{
    for (int turn = 0; !atomic_load(&over); turn++) {
        for (int i = 0; i < KINDS; i++) {
            see(i, now);
            see(i, by_call);
            see(i, now);
        }
        if (turn % 200 == 199)
            usleep(3000);
    }
    return unused;
}

/* Ends when the clock shows that time, and not much later. */
static void by_sleep(int clock, long long then)
{
    struct timespec deadline = at(then);
    int failed;
    while ((failed = clock_nanosleep(clock, TIMER_ABSTIME, &deadline, NULL)) == EINTR)
        ;
    check(failed == 0);
}

static void by_condition(int clock, long long then)
{
    pthread_condattr_t attributes;
    pthread_cond_t condition;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    struct timespec deadline = at(then);
    check(pthread_condattr_init(&attributes) == 0 && pthread_condattr_setclock(&attributes, clock) == 0);
    check(pthread_cond_init(&condition, &attributes) == 0 && pthread_mutex_lock(&mutex) == 0);
    int failed;
    while ((failed = pthread_cond_timedwait(&condition, &mutex, &deadline)) == 0)
        ;
    check(failed == ETIMEDOUT);
}

static void by_timerfd(int clock, long long then)
{
    uint64_t ticks;
    struct itimerspec deadline = {.it_value = at(then)};
    int fd = timerfd_create(clock, TFD_CLOEXEC);
    check(fd >= 0 && timerfd_settime(fd, TFD_TIMER_ABSTIME, &deadline, NULL) == 0);
    check(read(fd, &ticks, sizeof ticks) == sizeof ticks && ticks == 1 && close(fd) == 0);
}

static void by_timer(int clock, long long then)
{
    timer_t timer;
    sigset_t set = set_of(SIGRTMIN + (clock == CLOCK_BOOTTIME));
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + (clock == CLOCK_BOOTTIME)};
    struct itimerspec deadline = {.it_value = at(then)};
    check(timer_create(clock, &event, &timer) == 0 && timer_settime(timer, TIMER_ABSTIME, &deadline, NULL) == 0);
    int got;
    while ((got = sigwaitinfo(&set, NULL)) < 0 && errno == EINTR)
        ;
    check(got == event.sigev_signo && timer_delete(timer) == 0);
}

static void by_poll(int clock, long long then)
{
    long long left = then - now(clock);
    check(poll(NULL, 0, (int)(left / 1000000) + 1) == 0);
}

struct way {
    void (*wait)(int clock, long long then);
    int clock;
};
static const struct way ways[] = {{by_sleep, CLOCK_MONOTONIC},   {by_sleep, CLOCK_BOOTTIME},   {by_condition, CLOCK_MONOTONIC},
                                  {by_timerfd, CLOCK_MONOTONIC}, {by_timerfd, CLOCK_BOOTTIME}, {by_timer, CLOCK_MONOTONIC},
                                  {by_timer, CLOCK_BOOTTIME},    {by_poll, CLOCK_MONOTONIC}};
enum { WAYS = sizeof ways / sizeof *ways };

static void go(const struct way *way, int ms)
{
    long long then = now(way->clock) + ms * 1000000LL;
    way->wait(way->clock, then);
    long long late = now(way->clock) - then;
    if (late < 0 || late > SLOWER * LATE_MS * 1000000LL)
        dprintf(2, "way %d is late by %lld us\n", (int)(way - ways), late / 1000);
    check(late >= 0 && late <= SLOWER * LATE_MS * 1000000LL);
}

static void *run(void *way)
{
    go(way, WAIT_MS);
    return NULL;
}

int main(int argc, char **argv)
{
    begin_carried(argc, argv);
    pthread_t waiters[WAYS], watchers[WATCHERS];
    block(SIGRTMIN);
    block(SIGRTMIN + 1);
    long long real = now(CLOCK_REALTIME), start[KINDS];
    for (int i = 0; i < KINDS; i++)
        start[i] = now(kinds[i]);
    for (int i = 0; i < WATCHERS; i++)
        check(pthread_create(&watchers[i], NULL, watch, NULL) == 0);
    for (int i = 0; i < WAYS; i++)
        check(pthread_create(&waiters[i], NULL, run, (void *)&ways[i]) == 0);
    usleep(50000);

    phase();

    /* Who is made here has them too. */
    pid_t child = fork_child();
    if (child == 0) {
        for (int i = 0; i < KINDS; i++) {
            see(i, now);
            see(i, by_call);
        }
        for (int i = 0; i < WAYS; i++)
            go(&ways[i], SHORT_MS);
        _exit(0);
    }
    for (int i = 0; i < WAYS; i++)
        check(pthread_join(waiters[i], NULL) == 0);

    for (int i = 0; i < WAYS; i++)
        go(&ways[i], SHORT_MS);
    check(exited(wait_status(child), 0));
    /* They count time, and what it took to be carried at most. */
    for (int i = 0; i < KINDS; i++) {
        long long gone = now(kinds[i]) - start[i], really = now(CLOCK_REALTIME) - real;
        if (gone < 0 || gone > really + 200000000)
            dprintf(2, "clock %d counts %lld us, it were %lld\n", kinds[i], gone / 1000, really / 1000);
        check(gone >= 0 && gone <= really + 200000000);
    }
    atomic_store(&over, 1);
    for (int i = 0; i < WATCHERS; i++)
        check(pthread_join(watchers[i], NULL) == 0);
    return ok();
}
