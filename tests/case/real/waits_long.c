/* Threads that wait for a second to come by the clock, each by another call, and say how that ended and whether it took as long. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const struct timespec LONG = {.tv_sec = 3};
static uint32_t word = 7;

static long by_nanosleep(void) { return syscall(SYS_nanosleep, &LONG, NULL); }

static long by_nanosleep_told(void)
{
    struct timespec left;
    return syscall(SYS_nanosleep, &LONG, &left);
}

static long by_clock_nanosleep(void) { return syscall(SYS_clock_nanosleep, CLOCK_REALTIME, 0, &LONG, NULL); }

static long by_boottime(void) { return syscall(SYS_clock_nanosleep, CLOCK_BOOTTIME, 0, &LONG, NULL); }

static long by_poll(void) { return syscall(SYS_poll, NULL, 0, 3000); }

static long by_poll_of(void)
{
    int ends[2];
    struct pollfd one = {.events = POLLIN};
    if (pipe(ends) != 0)
        return -1;
    one.fd = ends[0];
    return syscall(SYS_poll, &one, 1, 3000);
}

static void *writes(void *end)
{
    return nanosleep(&LONG, NULL) == 0 && write(*(int *)end, "", 1) == 1 ? NULL : end;
}

static long by_poll_without_end(void)
{
    int ends[2];
    pthread_t writer;
    struct pollfd one = {.events = POLLIN};
    if (pipe(ends) != 0 || pthread_create(&writer, NULL, writes, &ends[1]) != 0)
        return -1;
    one.fd = ends[0];
    long result = syscall(SYS_poll, &one, 1, -1);
    int error = errno;
    pthread_join(writer, NULL);
    errno = error;
    return result == 1 ? 0 : result;
}

static long by_futex(void)
{
    long result = syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 7, &LONG);
    return result == -1 && errno == ETIMEDOUT ? 0 : result;
}

static long by_futex_until(void)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += LONG.tv_sec;
    long result = syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, 7, &until, NULL, FUTEX_BITSET_MATCH_ANY);
    return result == -1 && errno == ETIMEDOUT ? 0 : result;
}

static const struct way {
    const char *name;
    long (*wait)(void);
} WAYS[] = {{"nanosleep", by_nanosleep},   {"nanosleep told", by_nanosleep_told}, {"clock_nanosleep", by_clock_nanosleep},
            {"boottime", by_boottime},     {"poll", by_poll},                     {"poll of one", by_poll_of},
            {"poll without end", by_poll_without_end},
            {"futex", by_futex},           {"futex until", by_futex_until}};
#define COUNT (sizeof WAYS / sizeof WAYS[0])

static void *one(void *way_of)
{
    const struct way *way = way_of;
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    long result = way->wait();
    int error = errno;
    clock_gettime(CLOCK_MONOTONIC, &end);
    double took = (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
    if (result != 0 || took < 2.99 || took > 4)
        printf("%s: %ld, errno %d, after %.2f s\n", way->name, result, error, took);
    return NULL;
}

int main(void)
{
    pthread_t threads[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        if (pthread_create(&threads[i], NULL, one, (void *)&WAYS[i]) != 0)
            return 1;
    for (size_t i = 0; i < COUNT; i++)
        pthread_join(threads[i], NULL);
    puts("through");
    return 0;
}
