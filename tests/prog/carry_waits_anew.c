/* Whoever waits for a short time again and again is carried in one of these waits, and none ends early. */
#include "prog.h"
#include <linux/futex.h>

static const struct timespec duration = {0, 50000000};
static volatile int enough;

static void by_nanosleep(void) { check(nanosleep(&duration, NULL) == 0); }
static void by_poll(void) { check(poll(NULL, 0, 50) == 0); }
static void by_futex(void)
{
    int word = 0;
    check(syscall(SYS_futex, &word, FUTEX_WAIT, 0, &duration, NULL, 0) == -1 && errno == ETIMEDOUT);
}

static void (*const ways[])(void) = {by_nanosleep, by_poll, by_futex};
enum { WAYS = sizeof ways / sizeof *ways, EACH = 4 };

static double now(void)
{
    struct timespec t;
    check(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void *run(void *arg)
{
    long way = (long)arg % WAYS;
    usleep((useconds_t)(long)arg * 4000);
    while (!enough) {
        double start = now();
        ways[way]();
        double took = now() - start;
        if (took < 49)
            dprintf(2, "way %ld took %.1f ms\n", way, took);
        check(took >= 49);
    }
    return arg;
}

int main(int argc, char **argv)
{
    begin_carried(argc, argv);
    pthread_t threads[WAYS * EACH];
    for (long i = 0; i < WAYS * EACH; i++)
        check(pthread_create(&threads[i], NULL, run, (void *)i) == 0);
    usleep(100000);

    phase();

    enough = 1;
    for (int i = 0; i < WAYS * EACH; i++)
        check(pthread_join(threads[i], NULL) == 0);
    return ok();
}
