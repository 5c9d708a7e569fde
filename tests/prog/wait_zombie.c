/* An ended child is a zombie until waited for: it keeps its PID, takes signals without effect, and keeps its group. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child"))
        return 16;
    pid_t child = fork_child();
    if (child == 0) {
        check(setpgid(0, 0) == 0);
        become("child");
    }
    setpgid(child, child);
    until(state_of(child) == 'Z');
    check(kill(child, 0) == 0 && kill(child, SIGKILL) == 0 && kill(-child, SIGTERM) == 0);
    check(getpgid(child) == child && stat_field(child, 1) == getpid());
    check(exited(wait_status(child), 16));
    check(kill(child, 0) == -1 && errno == ESRCH);
    check(kill(-child, 0) == -1 && errno == ESRCH);
    check(state_of(child) == -1);
    return ok();
}
