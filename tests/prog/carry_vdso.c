/* Threads that are in the kernel's code of user space most of the time: clock_gettime, gettimeofday, time, clock_getres and getcpu give
 * what the system calls give, before and after, and monotonic time does not run backwards. */
#include "prog.h"
#include <sched.h>
#include <sys/syscall.h>
#include <sys/time.h>

enum { THREADS = 4 };

static int over;

static int64_t of(struct timespec t) { return t.tv_sec * 1000000000LL + t.tv_nsec; }

static int64_t now(clockid_t clock)
{
    struct timespec t;
    check(clock_gettime(clock, &t) == 0);
    return of(t);
}

static int64_t asked(clockid_t clock)
{
    struct timespec t;
    check(syscall(SYS_clock_gettime, clock, &t) == 0);
    return of(t);
}

static void *reads(void *arg)
{
    int64_t last = 0;
    do {
        int64_t t = now(CLOCK_MONOTONIC);
        check(t >= last);
        last = t;
    } while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE));
    return arg;
}

/* Between two system calls; the coarse clocks tick with the timer. */
static void between(clockid_t clock)
{
    int64_t before = asked(clock), t = now(clock), after = asked(clock);
    check(before <= t && t <= after);
}

static void all_are_right(void)
{
    const clockid_t clocks[] = {CLOCK_MONOTONIC,        CLOCK_REALTIME,        CLOCK_BOOTTIME, CLOCK_TAI,
                                CLOCK_MONOTONIC_COARSE, CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC_RAW};
    for (unsigned i = 0; i < sizeof clocks / sizeof *clocks; i++) {
        between(clocks[i]);
        struct timespec one, other;
        check(clock_getres(clocks[i], &one) == 0 && syscall(SYS_clock_getres, clocks[i], &other) == 0);
        check(of(one) == of(other));
    }
    struct timeval day;
    int64_t before = asked(CLOCK_REALTIME);
    check(gettimeofday(&day, NULL) == 0);
    check(day.tv_sec * 1000000LL + day.tv_usec >= before / 1000);
    time_t seconds = time(NULL);
    check(seconds >= before / 1000000000 - 1 && seconds <= asked(CLOCK_REALTIME) / 1000000000);
    check(sched_getcpu() >= 0 && sched_getcpu() < sysconf(_SC_NPROCESSORS_CONF));
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    begin_carried(argc, argv);
    all_are_right();
    for (int i = 0; i < THREADS; i++)
        check(pthread_create(&threads[i], NULL, reads, NULL) == 0);
    phase();
    all_are_right();
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < THREADS; i++)
        check(pthread_join(threads[i], NULL) == 0);
    return ok();
}
