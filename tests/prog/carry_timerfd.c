/* A timerfd with an interval never stops, however short that is and whenever its process is stopped; one that was set to a time keeps time and flags. */
#include "prog.h"
#include <sys/timerfd.h>

static long long ns_of(struct timespec t) { return t.tv_sec * 1000000000LL + t.tv_nsec; }

static long long now(int clock)
{
    struct timespec t;
    check(clock_gettime(clock, &t) == 0);
    return ns_of(t);
}

static struct timespec at(long long ns) { return (struct timespec){ns / 1000000000, ns % 1000000000}; }

static int timer(int clock, int flags, long long first, long long every)
{
    struct itimerspec spec = {.it_value = at(first), .it_interval = at(every)};
    int fd = timerfd_create(clock, TFD_NONBLOCK);
    check(fd >= 0 && timerfd_settime(fd, flags, &spec, NULL) == 0);
    return fd;
}

static int flags_of(int fd)
{
    char path[64], line[128];
    int flags = -1;
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    FILE *file = fopen(path, "r");
    check(file);
    while (fgets(line, sizeof line, file))
        sscanf(line, "settime flags: %o", &flags);
    fclose(file);
    return flags;
}

/* So many are due at about any moment. */
enum { OFTEN = 300 };
static int often[OFTEN];
static volatile int over;

static void *reads(void *arg)
{
    uint64_t ticks;
    while (!over)
        for (int i = 0; i < OFTEN; i++)
            check(read(often[i], &ticks, 8) == 8 || errno == EAGAIN);
    return arg;
}

static void goes_on(int fd)
{
    uint64_t ticks;
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    for (int i = 0; i < 3; i++)
        check(poll(&ready, 1, 5000) == 1 && read(fd, &ticks, 8) == 8 && ticks > 0);
}

int main(int argc, char **argv)
{
    static const struct {
        int clock, flags;
    } times[] = {{CLOCK_MONOTONIC, TFD_TIMER_ABSTIME}, {CLOCK_BOOTTIME, TFD_TIMER_ABSTIME}, {CLOCK_REALTIME, TFD_TIMER_ABSTIME}, {CLOCK_REALTIME, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET}};
    enum { TIMES = sizeof times / sizeof *times };
    long long until[TIMES];
    int set[TIMES], gone_off[TIMES];
    struct itimerspec left;
    uint64_t ticks;
    pthread_t reader;
    begin_carried(argc, argv);
    /* Whenever it is asked how long it has, that is over. */
    int at_once = timer(CLOCK_MONOTONIC, 0, 1, 1), unset = timer(CLOCK_MONOTONIC, 0, 0, 7000000);
    for (int i = 0; i < OFTEN; i++)
        often[i] = timer(CLOCK_MONOTONIC, 0, 1000000 + i * 1000, 1000000 + i * 1000);
    for (int i = 0; i < TIMES; i++) {
        until[i] = now(times[i].clock) + 1000 * 1000000000LL;
        set[i] = timer(times[i].clock, times[i].flags, until[i], 60 * 1000000000LL);
        gone_off[i] = timer(times[i].clock, times[i].flags, 1, 0);
        check(read(gone_off[i], &ticks, 8) == 8);
    }
    check(pthread_create(&reader, NULL, reads, NULL) == 0);

    phase();

    over = 1;
    check(pthread_join(reader, NULL) == 0);
    goes_on(at_once);
    for (int i = 0; i < OFTEN; i++)
        goes_on(often[i]);
    check(timerfd_gettime(unset, &left) == 0 && ns_of(left.it_value) == 0 && ns_of(left.it_interval) == 7000000);
    for (int i = 0; i < TIMES; i++) {
        long long off = 1000000000;
        for (int tries = 0; tries < 20 && llabs(off) > 1000000; tries++) { /* another process may run in between */
            off = now(times[i].clock) - until[i];
            check(timerfd_gettime(set[i], &left) == 0 && ns_of(left.it_interval) == 60 * 1000000000LL);
            off += ns_of(left.it_value);
        }
        if (llabs(off) > 1000000)
            dprintf(2, "timer %d goes off %lld us late\n", i, off / 1000);
        check(llabs(off) <= 1000000 && flags_of(set[i]) == times[i].flags);
        check(flags_of(gone_off[i]) == times[i].flags && read(gone_off[i], &ticks, 8) == -1 && errno == EAGAIN);
    }
    return ok();
}
