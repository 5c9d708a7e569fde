/* pidfd_send_signal reaches a child elsewhere, with siginfo if given; a flag that is none is EINVAL. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        block(SIGUSR1);
        block(SIGUSR2);
        say(1, 'r');
        check(take(SIGUSR1).si_pid == getppid());
        siginfo_t info = take(SIGUSR2);
        check(info.si_code == SI_QUEUE && info.si_value.sival_int == 9 && info.si_pid == getppid());
        return 50;
    }
    struct piped child = spawn_piped("child");
    check(hear(child.out) == 'r');
    int fd = (int)syscall(SYS_pidfd_open, child.pid, 0);
    siginfo_t info = {.si_signo = SIGUSR2, .si_code = SI_QUEUE};
    info.si_pid = getpid();
    info.si_uid = getuid();
    info.si_value.sival_int = 9;
    check(fd >= 0 && syscall(SYS_pidfd_send_signal, fd, SIGUSR1, NULL, 0) == 0);
    check(syscall(SYS_pidfd_send_signal, fd, SIGUSR2, &info, 0) == 0);
    check(syscall(SYS_pidfd_send_signal, fd, SIGUSR2, NULL, 0x80000000) == -1 && errno == EINVAL);
    check(exited(wait_status(child.pid), 50));
    check(syscall(SYS_pidfd_send_signal, fd, SIGUSR1, NULL, 0) == -1 && errno == ESRCH);
    return ok();
}
