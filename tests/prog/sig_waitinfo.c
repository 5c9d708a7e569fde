/* sigwaitinfo and sigtimedwait take blocked signals that come from elsewhere; a time-out is EAGAIN. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        const struct timespec none = {0, 0}, long_time = {DEADLINE_S, 0};
        siginfo_t info;
        sigset_t set = set_of(SIGUSR1);
        sigaddset(&set, SIGUSR2);
        check(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
        check(sigtimedwait(&set, &info, &none) == -1 && errno == EAGAIN);
        say(1, 'r');
        check(sigtimedwait(&set, &info, &long_time) == SIGUSR1 && info.si_pid == getppid());
        say(1, 'n');
        check(sigwaitinfo(&set, &info) == SIGUSR2 && info.si_pid == getppid());
        return 0;
    }
    struct piped child = spawn_piped("child");
    check(hear(child.out) == 'r' && kill(child.pid, SIGUSR1) == 0);
    check(hear(child.out) == 'n' && kill(child.pid, SIGUSR2) == 0);
    check(exited(wait_status(child.pid), 0));
    return ok();
}
