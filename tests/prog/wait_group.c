/* waitpid(-pgid) and waitid(P_PGID) wait for the group that is named and for no other. */
#include "prog.h"

static pid_t in_group(pid_t group, const char *code)
{
    pid_t pid = fork_child();
    if (pid == 0) {
        check(setpgid(0, group) == 0);
        become("child", code);
    }
    setpgid(pid, group);
    return pid;
}

int main(int argc, char **argv)
{
    siginfo_t info;
    int status;
    begin(argc, argv);
    if (role("child"))
        return atoi(arg(1));
    pid_t own = spawn_child("child", "41");
    pid_t first = in_group(0, "42"), second = in_group(first, "43"), other = in_group(0, "44");
    check(waitid(P_PGID, (id_t)other, &info, WEXITED) == 0 && info.si_pid == other && info.si_status == 44);
    check(waitpid(-other, &status, 0) == -1 && errno == ECHILD);
    int sum = 0;
    for (int i = 0; i < 2; i++) {
        pid_t got = waitpid(-first, &status, 0);
        check(got == first || got == second);
        sum += WEXITSTATUS(status);
    }
    check(sum == 42 + 43 && waitpid(-first, &status, 0) == -1 && errno == ECHILD);
    check(waitpid(0, &status, 0) == own && exited(status, 41));
    return ok();
}
