/* A handle on a process (pidfd_open(2)) says that it has ended. That its parent has waited for it, the handle says from Linux 6.9 on, as a hangup, and wakes who waits
 * for that; before, nothing tells anybody else, and only a signal that finds nobody shows it. The same kernels have handles on single threads. */
#include "prog.h"
#include <poll.h>
#include <sys/epoll.h>

int main(int argc, char **argv)
{
    begin(argc, argv);
    int thread = (int)syscall(SYS_pidfd_open, getpid(), O_EXCL);
    check(thread >= 0 || errno == EINVAL);
    int tells = thread >= 0;
    pid_t pid = fork();
    check(pid >= 0);
    if (pid == 0)
        _exit(3);
    int handle = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd ended = {.fd = handle, .events = POLLIN};
    check(poll(&ended, 1, 10000) == 1 && ended.revents == POLLIN);

    int looks = epoll_create1(0);
    struct epoll_event nothing = {.events = 0};
    check(epoll_ctl(looks, EPOLL_CTL_ADD, handle, &nothing) == 0);
    check(epoll_wait(looks, &nothing, 1, 100) == 0);
    check(syscall(SYS_pidfd_send_signal, handle, 0, NULL, 0) == 0);
    check(waitpid(pid, NULL, 0) == pid);
    check(epoll_wait(looks, &nothing, 1, tells ? 10000 : 300) == tells);
    check(poll(&ended, 1, 0) == 1 && ended.revents == (tells ? POLLIN | POLLHUP : POLLIN));
    check(syscall(SYS_pidfd_send_signal, handle, 0, NULL, 0) == -1 && errno == ESRCH);
    return ok();
}
