/* WNOWAIT looks without taking: the zombie stays for the next wait. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child"))
        return 14;
    pid_t child = spawn_child("child");
    for (int i = 0; i < 3; i++) {
        siginfo_t info = {0};
        check(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) == 0);
        check(info.si_pid == child && info.si_code == CLD_EXITED && info.si_status == 14 && info.si_signo == SIGCHLD);
        check(state_of(child) == 'Z');
    }
    check(exited(wait_status(child), 14));
    check(waitpid(child, NULL, 0) == -1 && errno == ECHILD);
    return ok();
}
