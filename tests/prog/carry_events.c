/* eventfd, signalfd and epoll, one in another, report what they would have. */
#include "prog.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>

static void add(int epoll, int fd, uint64_t data)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = data};
    check(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
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
    check(kill(getpid(), SIGUSR1) == 0);

    phase();

    check(read(counter, &count, 8) == 8 && count == 5 && read(counter, &count, 8) == -1 && errno == EAGAIN);
    check(read(semaphore, &count, 8) == 8 && count == 1);
    check(next(outer) == 3 && next(inner) == 2);
    struct signalfd_siginfo info;
    check(read(signals, &info, sizeof info) == sizeof info && info.ssi_signo == SIGUSR1 && info.ssi_pid == (unsigned)getpid());
    struct epoll_event event;
    check(epoll_wait(outer, &event, 1, 0) == 0);
    count = 1;
    check(write(quiet, &count, 8) == 8 && next(outer) == 3 && next(inner) == 0x1234567890abcdef);
    check(fcntl(outer, F_GETFD) == FD_CLOEXEC && fcntl(inner, F_GETFD) == 0);
    return ok();
}
