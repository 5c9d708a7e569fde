/* Threads that wait for a time while the process is carried wait for what is left of it, and see no interruption. */
#include "prog.h"
#include <linux/futex.h>
#include <semaphore.h>
#include <sys/select.h>

enum { WAIT_MS = 1500 };

/* Of this clock: for the others the time in a file does not count on another machine (carry_clocks.c), but one of the waits is for a time of this. */
static double now(void)
{
    struct timespec t;
    check(clock_gettime(CLOCK_REALTIME, &t) == 0);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static const struct timespec duration = {WAIT_MS / 1000, WAIT_MS % 1000 * 1000000};

static void by_nanosleep(void) { check(nanosleep(&duration, NULL) == 0); }
static void by_clock_nanosleep(void) { check(clock_nanosleep(CLOCK_MONOTONIC, 0, &duration, NULL) == 0); }
static void by_poll(void) { check(poll(NULL, 0, WAIT_MS) == 0); }
static void by_select(void)
{
    struct timeval t = {WAIT_MS / 1000, WAIT_MS % 1000 * 1000};
    check(select(0, NULL, NULL, NULL, &t) == 0);
}
static void by_futex(void)
{
    int word = 0;
    check(syscall(SYS_futex, &word, FUTEX_WAIT, 0, &duration, NULL, 0) == -1 && errno == ETIMEDOUT);
}
static void by_semaphore(void)
{
    sem_t sem;
    struct timespec until_then;
    check(sem_init(&sem, 0, 0) == 0 && clock_gettime(CLOCK_REALTIME, &until_then) == 0);
    until_then.tv_sec += 1;
    until_then.tv_nsec += 499999999;
    until_then.tv_sec += until_then.tv_nsec / 1000000000;
    until_then.tv_nsec %= 1000000000;
    check(sem_timedwait(&sem, &until_then) == -1 && errno == ETIMEDOUT);
}
static void by_sigtimedwait(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    int got = sigtimedwait(&set, NULL, &duration);
    check(got == -1 && (errno == EAGAIN || errno == EINTR)); /* signal(7): a stop may end it */
}

static void (*const ways[])(void) = {by_nanosleep, by_clock_nanosleep, by_poll, by_select, by_futex, by_semaphore};
enum { WAYS = sizeof ways / sizeof *ways };

static void *run(void *arg)
{
    double start = now();
    (*(void (*const *)(void))arg)();
    double took = now() - start;
    if (took < WAIT_MS - 20 || took >= WAIT_MS + 2500 * SLOWER)
        dprintf(2, "way %d took %.0f ms\n", (int)((void (*const *)(void))arg - ways), took);
    check(took >= WAIT_MS - 20 && took < WAIT_MS + 2500 * SLOWER);
    return NULL;
}

static void *interruptible(void *arg)
{
    by_sigtimedwait();
    return arg;
}

int main(int argc, char **argv)
{
    begin_carried(argc, argv);
    pthread_t threads[WAYS + 1];
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    check(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    for (int i = 0; i < WAYS; i++)
        check(pthread_create(&threads[i], NULL, run, (void *)&ways[i]) == 0);
    check(pthread_create(&threads[WAYS], NULL, interruptible, NULL) == 0);
    usleep(50000);

    phase();

    for (int i = 0; i <= WAYS; i++)
        check(pthread_join(threads[i], NULL) == 0);
    return ok();
}
