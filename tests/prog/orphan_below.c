/* A subreaper that is no parent itself: it gets the child of its child, and the child of that, when their parents end. */
#include "prog.h"

static pid_t in_between(pid_t subreaper)
{
    pid_t pid = fork_child();
    if (pid == 0) {
        block(SIGUSR2);
        pid_t child = spawn_child("child", text(getpid()), text(subreaper));
        check(take(SIGUSR2).si_pid == child);
        _exit(30);
    }
    return pid;
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("orphan"))
        return become_orphan(atoi(arg(1)), SIGUSR2);
    if (role("child")) {
        pid_t between = atoi(arg(1)), subreaper = atoi(arg(2));
        block(SIGUSR1);
        pid_t orphan = spawn_child("orphan", text(subreaper));
        check(take(SIGUSR1).si_pid == orphan);
        check(getppid() == between && kill(between, SIGUSR2) == 0);
        until(getppid() == subreaper);
        check(kill(subreaper, SIGUSR1) == 0);
        return 31;
    }
    block(SIGUSR1);
    block(SIGUSR2);
    check(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    pid_t between = in_between(getpid()), child = 0, orphan = 0;
    check(exited(wait_status(between), 30));
    child = take(SIGUSR1).si_pid;
    check(exited(wait_status(child), 31));
    orphan = take(SIGUSR2).si_pid;
    check(orphan != child && stat_field(orphan, 1) == getpid());
    check(kill(orphan, SIGSTOP) == 0);
    int status;
    check(waitpid(orphan, &status, WUNTRACED) == orphan && stopped(status, SIGSTOP));
    check(kill(orphan, SIGKILL) == 0 && killed(wait_status(orphan), SIGKILL));
    check(wait(NULL) == -1 && errno == ECHILD);
    return ok();
}
