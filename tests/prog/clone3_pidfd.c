/* clone3 with CLONE_PIDFD: poll on the descriptor tells the exit, waitid(P_PIDFD) collects it. */
#include "prog.h"
#include <linux/sched.h>

int main(int argc, char **argv)
{
    int fd = -1, hold[2];
    begin(argc, argv);
    check(pipe(hold) == 0);
    struct clone_args how = {.flags = CLONE_PIDFD, .pidfd = (uintptr_t)&fd, .exit_signal = SIGCHLD};
    pid_t child = (pid_t)syscall(SYS_clone3, &how, sizeof how);
    check(child >= 0);
    if (child == 0) {
        alarm(DEADLINE_S);
        close(hold[1]);
        hear(hold[0]);
        _exit(8);
    }
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    check(poll(&poll_fd, 1, 0) == 0);
    close(hold[1]);
    check(poll(&poll_fd, 1, -1) == 1);
    siginfo_t info;
    check(waitid((idtype_t)3 /* P_PIDFD */, (id_t)fd, &info, WEXITED) == 0);
    check(info.si_pid == child && info.si_code == CLD_EXITED && info.si_status == 8);
    return ok();
}
