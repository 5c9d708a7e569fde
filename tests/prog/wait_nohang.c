/* WNOHANG: 0 while the child lives, its PID when it has ended, ECHILD after. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        say(1, 'r');
        return hear(0) == -1 ? 12 : 1;
    }
    struct piped child = spawn_piped("child");
    siginfo_t info = {.si_pid = 77};
    int status, got;
    check(hear(child.out) == 'r');
    check(waitpid(child.pid, &status, WNOHANG) == 0 && waitpid(-1, &status, WNOHANG) == 0);
    check(waitid(P_PID, (id_t)child.pid, &info, WEXITED | WNOHANG) == 0 && info.si_pid == 0);
    close(child.in);
    until((got = waitpid(child.pid, &status, WNOHANG)) != 0);
    check(got == child.pid && exited(status, 12));
    check(waitpid(child.pid, &status, WNOHANG) == -1 && errno == ECHILD);
    return ok();
}
