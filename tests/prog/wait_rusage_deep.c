/* CPU time of a child of a child, waitid's rusage, and a wait that a signal or a stop interrupts. */
#include "prog.h"

static double seconds(struct rusage *u)
{
    return (double)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) + (double)(u->ru_utime.tv_usec + u->ru_stime.tv_usec) / 1e6;
}

static int use(double wanted)
{
    struct rusage mine;
    do
        check(getrusage(RUSAGE_SELF, &mine) == 0);
    while (seconds(&mine) < wanted);
    return 3;
}

static void on_signal(int sig) { (void)sig; }

int main(int argc, char **argv)
{
    struct rusage before, after, mine;
    siginfo_t info;
    int status;
    begin(argc, argv);
    if (role("user"))
        return use(0.1);
    if (role("late")) {
        use(0.05);
        check(kill(getppid(), SIGUSR1) == 0); /* ends its wait with EINTR */
        take(SIGUSR2);
        return use(0.1);
    }
    check(getrusage(RUSAGE_CHILDREN, &before) == 0);
    pid_t between = fork_child();
    if (between == 0)
        _exit(exited(wait_status(spawn_child("user")), 3) ? 4 : 1);
    check(exited(wait_status(between), 4));
    check(getrusage(RUSAGE_CHILDREN, &after) == 0 && seconds(&after) - seconds(&before) >= 0.1);

    pid_t child = spawn_child("user");
    check(syscall(SYS_waitid, P_PID, child, &info, WEXITED | WNOWAIT, &mine) == 0);
    check(info.si_pid == child && info.si_status == 3 && seconds(&mine) >= 0.1);
    check(syscall(SYS_waitid, P_PID, child, &info, WEXITED, &mine) == 0 && seconds(&mine) >= 0.1);

    struct sigaction act = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &act, NULL);
    block(SIGUSR2);
    child = spawn_child("late");
    check(wait4(child, &status, 0, &mine) == -1 && errno == EINTR);
    check(kill(child, SIGSTOP) == 0);
    check(wait4(child, &status, WUNTRACED, &mine) == child && stopped(status, SIGSTOP));
    check(kill(child, SIGCONT) == 0 && kill(child, SIGUSR2) == 0);
    check(wait4(child, &status, 0, &mine) == child && exited(status, 3) && seconds(&mine) >= 0.1);
    check(wait4(-1, &status, 0, &mine) == -1 && errno == ECHILD);
    check(getrusage(RUSAGE_CHILDREN, &after) == 0 && seconds(&after) - seconds(&before) >= 0.3);
    return ok();
}
