/* Errors of the signal calls: EINVAL for a signal that is none, ESRCH for a process that is none. */
#include "prog.h"

int main(int argc, char **argv)
{
    siginfo_t info = {.si_code = SI_USER, .si_signo = SIGUSR1};
    union sigval value = {.sival_int = 1};
    begin(argc, argv);
    if (role("child"))
        pause_forever();
    pid_t child = spawn_child("child"), none = 4194303;
    check(kill(child, 65) == -1 && errno == EINVAL);
    check(kill(child, -1) == -1 && errno == EINVAL);
    check(sigqueue(child, 65, value) == -1 && errno == EINVAL);
    check(kill(none, 0) == -1 && errno == ESRCH);
    check(kill(none, SIGTERM) == -1 && errno == ESRCH);
    check(kill(-none, SIGTERM) == -1 && errno == ESRCH);
    check(kill(INT_MIN, SIGTERM) == -1 && errno == ESRCH);
    check(sigqueue(none, SIGTERM, value) == -1 && errno == ESRCH);
    check(syscall(SYS_tgkill, none, none, SIGTERM) == -1 && errno == ESRCH);
    check(syscall(SYS_tgkill, -1, child, SIGTERM) == -1 && errno == EINVAL);
    check(syscall(SYS_tkill, none, SIGTERM) == -1 && errno == ESRCH);
    check(syscall(SYS_pidfd_open, none, 0) == -1 && errno == ESRCH);
    check(syscall(SYS_pidfd_open, -1, 0) == -1 && errno == EINVAL);
    check(syscall(SYS_pidfd_open, child, 0x1000000) == -1 && errno == EINVAL);
    check(syscall(SYS_rt_sigqueueinfo, child, SIGUSR1, &info) == -1 && errno == EPERM); /* cannot pretend SI_USER */
    check(kill(child, SIGKILL) == 0 && killed(wait_status(child), SIGKILL));
    check(kill(child, SIGKILL) == -1 && errno == ESRCH);
    return ok();
}
