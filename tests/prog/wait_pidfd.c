/* pidfd of a child elsewhere: not readable while it lives, then poll and waitid(P_PIDFD). */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        say(1, 'r');
        return hear(0) == -1 ? 18 : 1;
    }
    struct piped child = spawn_piped("child");
    int fd = (int)syscall(SYS_pidfd_open, child.pid, 0);
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    siginfo_t info;
    check(fd >= 0 && hear(child.out) == 'r' && poll(&poll_fd, 1, 0) == 0);
    close(child.in);
    check(poll(&poll_fd, 1, -1) == 1 && poll_fd.revents == POLLIN);
    check(waitid((idtype_t)3 /* P_PIDFD */, (id_t)fd, &info, WEXITED) == 0);
    check(info.si_pid == child.pid && info.si_code == CLD_EXITED && info.si_status == 18);
    check(syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0) == -1 && errno == ESRCH);
    return ok();
}
