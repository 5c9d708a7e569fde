/* Time namespaces: timens_offsets of a process tells, and sets, what is added to the clocks of its future children; its own may be others. What is added can be set
 * until somebody is in the namespace. setns(2) takes a running process into one if it has one thread, and then its clocks jump, in the vdso too, while
 * timers and waits that it has begun end when they would have: the kernel keeps them in its own time. A thread of several is refused. */
#include "prog.h"
#include <sys/timerfd.h>

static const int kinds[] = {CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_MONOTONIC_RAW, CLOCK_MONOTONIC_COARSE};
enum { KINDS = sizeof kinds / sizeof *kinds, ADDED = 1000, NEW_TIME = 0x80 };

static double seconds(int clock, int by_call)
{
    struct timespec t;
    check((by_call ? syscall(SYS_clock_gettime, clock, &t) : clock_gettime(clock, &t)) == 0);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static long told(void)
{
    char text[256] = "";
    long monotonic;
    int fd = open("/proc/self/timens_offsets", O_RDONLY | O_CLOEXEC);
    check(fd >= 0 && read(fd, text, sizeof text - 1) > 0 && close(fd) == 0);
    check(sscanf(text, "monotonic %ld", &monotonic) == 1);
    return monotonic;
}

static int set(long monotonic)
{
    char text[128];
    int length = snprintf(text, sizeof text, "monotonic %ld 0\nboottime %ld 0\n", monotonic, monotonic);
    int fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
    check(fd >= 0);
    int done = write(fd, text, (size_t)length) == length ? 0 : -errno;
    close(fd);
    return done;
}

static int of_children(void) { return open("/proc/self/ns/time_for_children", O_RDONLY | O_CLOEXEC); }

static void *linger(void *arg)
{
    pause();
    return arg;
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    int none = of_children();
    if (none < 0 || geteuid() != 0) /* a kernel without them */
        return ok();
    close(none);
    long before = told();
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct itimerspec soon = {.it_value = {0, 200000000}};
    check(timer >= 0 && timerfd_settime(timer, 0, &soon, NULL) == 0);
    double was[KINDS];
    for (int i = 0; i < KINDS; i++)
        was[i] = seconds(kinds[i], 0);

    check(unshare(NEW_TIME) == 0);
    check(told() == before && set(before + ADDED) == 0 && told() == before + ADDED);
    for (int i = 0; i < KINDS; i++) /* but it is not there */
        check(seconds(kinds[i], 0) - was[i] < ADDED / 2);

    int made = of_children();
    check(made >= 0 && setns(made, NEW_TIME) == 0 && close(made) == 0);
    for (int i = 0; i < KINDS; i++)
        for (int by_call = 0; by_call < 2; by_call++)
            check(seconds(kinds[i], by_call) - was[i] > ADDED - 1 && seconds(kinds[i], by_call) - was[i] < ADDED + 20);
    check(set(before) == -EACCES);
    struct itimerspec left;
    struct pollfd ready = {.fd = timer, .events = POLLIN};
    check(timerfd_gettime(timer, &left) == 0 && left.it_value.tv_sec == 0);
    check(poll(&ready, 1, 5000) == 1);

    pid_t child = fork_child();
    if (child == 0)
        _exit(told() == before + ADDED && seconds(CLOCK_MONOTONIC, 0) - was[0] > ADDED - 1 ? 0 : 1);
    check(exited(wait_status(child), 0));

    pthread_t thread;
    check(pthread_create(&thread, NULL, linger, NULL) == 0);
    /* as far as the clock would not be before its beginning */
    check(unshare(NEW_TIME) == 0 && set(before - (long)seconds(CLOCK_BOOTTIME, 1) - 100000) == -ERANGE);
    made = of_children();
    check(made >= 0 && setns(made, NEW_TIME) == -1 && errno == EUSERS);
    return ok();
}
