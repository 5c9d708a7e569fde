/* In a PID namespace of its own a process has small numbers, which other processes have too: its calls mean those that it sees. */
#include "prog.h"

static pid_t waits(void)
{
    pid_t pid = fork();
    check(pid >= 0);
    if (pid == 0) {
        siginfo_t info = take(SIGWINCH);
        _exit(info.si_pid == 1 ? 7 : 8);
    }
    return pid;
}

static void ended(pid_t pid)
{
    check(exited(wait_status(pid), 7));
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    block(SIGWINCH);
    pid_t init = syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
    check(init >= 0);
    if (init == 0) {
        union sigval value = { .sival_int = 3 };
        check(getpid() == 1);
        pid_t pid = waits();
        check(pid < 100 && kill(pid, 0) == 0 && kill(pid, SIGWINCH) == 0);
        ended(pid);
        pid = waits();
        check(syscall(SYS_tgkill, pid, pid, SIGWINCH) == 0);
        ended(pid);
        pid = waits();
        check(sigqueue(pid, SIGWINCH, value) == 0);
        ended(pid);
        pid = waits();
        int fd = syscall(SYS_pidfd_open, pid, 0);
        check(fd >= 0 && syscall(SYS_pidfd_send_signal, fd, SIGWINCH, NULL, 0) == 0);
        ended(pid);
        pid = waits();
        check(setpgid(pid, pid) == 0 && getpgid(pid) == pid && kill(-pid, SIGWINCH) == 0);
        ended(pid);
        /* None of these is there, whoever has the number elsewhere. */
        for (pid_t other = 50; other < 60; other++) check(kill(other, 0) == -1 && errno == ESRCH);
        _exit(5);
    }
    check(exited(wait_status(init), 5));
    return ok();
}
