/* WUNTRACED and WSTOPPED: each stop is told once, with its signal; without the flag wait does not see it. */
#include "prog.h"

int main(int argc, char **argv)
{
    static const int sigs[] = {SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU};
    begin(argc, argv);
    if (role("child"))
        pause_forever();
    /* In a group of its own, but in its parent's session: not orphaned, so all four stop it. */
    pid_t child = fork_child();
    if (child == 0) {
        check(setpgid(0, 0) == 0);
        become("child");
    }
    siginfo_t info;
    int status;
    setpgid(child, child);
    for (int i = 0; i < 4; i++) {
        check(kill(child, sigs[i]) == 0);
        check(waitpid(child, &status, WUNTRACED) == child && stopped(status, sigs[i]));
        check(waitpid(child, &status, WUNTRACED | WNOHANG) == 0);
        check(waitpid(child, &status, WNOHANG) == 0);
        check(state_of(child) == 'T');
        check(kill(child, SIGCONT) == 0);
        check(waitid(P_PID, (id_t)child, &info, WCONTINUED) == 0 && info.si_code == CLD_CONTINUED);
        check(info.si_status == SIGCONT && info.si_pid == child);
    }
    check(kill(child, SIGSTOP) == 0);
    check(waitid(P_PID, (id_t)child, &info, WSTOPPED | WNOWAIT) == 0 && info.si_code == CLD_STOPPED);
    check(waitid(P_PID, (id_t)child, &info, WSTOPPED) == 0 && info.si_status == SIGSTOP);
    check(kill(child, SIGKILL) == 0 && killed(wait_status(child), SIGKILL));
    return ok();
}
