/* eventfd, signalfd and epoll, one in another, report what they would have. */
#include "prog.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

static void add(int epoll, int fd, uint64_t data)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = data};
    check(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
}

/* What epoll looks at, and for what, as the kernel says it: without inodes, which are others, and in the order of the descriptors. */
static void looks_at(int epoll, char *into, size_t length)
{
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", epoll);
    into[0] = 0;
    for (int fd = 0; fd < 40; fd++) {
        FILE *f = fopen(path, "r");
        check(f);
        while (fgets(line, sizeof line, f)) {
            char *end = strstr(line, " pos:");
            if (end && strncmp(line, "tfd:", 4) == 0 && atoi(line + 4) == fd)
                strncat(strncat(into, line, (size_t)(end - line)), "\n", length - 1 - strlen(into));
        }
        fclose(f);
    }
}

static uint64_t next(int epoll)
{
    struct epoll_event event;
    check(epoll_wait(epoll, &event, 1, 2000) == 1 && event.events == EPOLLIN);
    return event.data.u64;
}

int main(int argc, char **argv)
{
    begin_carried(argc, argv);
    uint64_t count;
    sigset_t set;
    int counter = eventfd(5, EFD_NONBLOCK), semaphore = eventfd(3, EFD_SEMAPHORE | EFD_CLOEXEC), quiet = eventfd(0, 0);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    check(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    int signals = signalfd(-1, &set, SFD_NONBLOCK), inner = epoll_create1(0), outer = epoll_create1(EPOLL_CLOEXEC);
    check(counter >= 0 && semaphore >= 0 && quiet >= 0 && signals >= 0 && inner >= 0 && outer >= 0);
    add(inner, quiet, 0x1234567890abcdef);
    add(inner, signals, 2);
    add(outer, inner, 3);
    /* For one event, which it has had: nothing more of it until that is asked for. */
    int ends[2], once[2], ticks = timerfd_create(CLOCK_MONOTONIC, 0), one_shots = epoll_create1(0);
    check(pipe(ends) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, once) == 0 && write(ends[1], "x", 1) == 1 && write(once[1], "x", 1) == 1);
    struct epoll_event shot = {.events = EPOLLIN | EPOLLONESHOT, .data.u64 = 9}, edge = {.events = EPOLLIN | EPOLLET | EPOLLRDHUP, .data.u64 = 8};
    check(epoll_ctl(one_shots, EPOLL_CTL_ADD, ends[0], &shot) == 0 && next(one_shots) == 9);
    check(epoll_ctl(one_shots, EPOLL_CTL_ADD, once[0], &shot) == 0 && next(one_shots) == 9);
    check(epoll_ctl(one_shots, EPOLL_CTL_ADD, ticks, &edge) == 0);
    check(close(ends[1]) == 0 && close(once[1]) == 0 && epoll_wait(one_shots, &edge, 1, 0) == 0);
    static char before[2][4096], after[4096];
    looks_at(outer, before[0], sizeof before[0]), looks_at(one_shots, before[1], sizeof before[1]);
    check(kill(getpid(), SIGUSR1) == 0);

    phase();

    check(read(counter, &count, 8) == 8 && count == 5 && read(counter, &count, 8) == -1 && errno == EAGAIN);
    check(read(semaphore, &count, 8) == 8 && count == 1);
    check(next(outer) == 3 && next(inner) == 2);
    looks_at(outer, after, sizeof after);
    check(strcmp(before[0], after) == 0);
    looks_at(one_shots, after, sizeof after);
    check(strcmp(before[1], after) == 0);
    check(epoll_wait(one_shots, &edge, 1, 0) == 0);
    check(epoll_ctl(one_shots, EPOLL_CTL_MOD, ends[0], &shot) == 0 && epoll_wait(one_shots, &edge, 1, 0) == 1 && edge.events == (EPOLLIN | EPOLLHUP));
    struct signalfd_siginfo info;
    check(read(signals, &info, sizeof info) == sizeof info && info.ssi_signo == SIGUSR1 && info.ssi_pid == (unsigned)getpid());
    struct epoll_event event;
    check(epoll_wait(outer, &event, 1, 0) == 0);
    count = 1;
    check(write(quiet, &count, 8) == 8 && next(outer) == 3 && next(inner) == 0x1234567890abcdef);
    check(fcntl(outer, F_GETFD) == FD_CLOEXEC && fcntl(inner, F_GETFD) == 0);
    return ok();
}
