/* A group outlives its leader, keeps the leader's number taken, and can still be signalled and joined. */
#include "prog.h"

static pid_t member(pid_t group, const char *role_name)
{
    pid_t pid = fork_child();
    if (pid == 0) {
        check(setpgid(0, group) == 0);
        become(role_name);
    }
    setpgid(pid, group);
    return pid;
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("stay"))
        pause_forever();
    if (role("exit"))
        return hear(0) == -1 ? 0 : 1;
    struct piped lead = {0};
    int in[2];
    check(pipe2(in, O_CLOEXEC) == 0);
    lead.pid = fork_child();
    if (lead.pid == 0) {
        check(setpgid(0, 0) == 0 && dup2(in[0], 0) == 0);
        become("exit");
    }
    setpgid(lead.pid, lead.pid);
    pid_t second = member(lead.pid, "stay");
    close(in[1]);
    check(exited(wait_status(lead.pid), 0));
    check(kill(lead.pid, 0) == -1 && errno == ESRCH && kill(-lead.pid, 0) == 0);
    pid_t third = member(lead.pid, "stay");
    check(getpgid(third) == lead.pid && getpgid(second) == lead.pid);
    check(kill(-lead.pid, SIGTERM) == 0);
    check(killed(wait_status(second), SIGTERM) && killed(wait_status(third), SIGTERM));
    check(kill(-lead.pid, 0) == -1 && errno == ESRCH);
    return ok();
}
