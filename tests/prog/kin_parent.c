/* A parent that is carried away from its children waits for them, is told of them and signals them as before, and is their parent. */
#include "prog.h"

enum { CHILDREN = 3 };

static volatile sig_atomic_t told;
static void on_child(int sig)
{
    (void)sig;
    told++;
}

/* Leads nowhere; each signal is answered: USR1 by stopping, USR2 by exiting with 7 if this is still the child of `parent`. */
static pid_t child_of_mine(void)
{
    pid_t parent = getpid(), pid = fork_child();
    if (pid)
        return pid;
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++)
        check(dup2(null, fd) == fd);
    close(null);
    alarm(120);
    sigset_t both = set_of(SIGUSR1);
    sigaddset(&both, SIGUSR2);
    for (;;) {
        siginfo_t info;
        int sig = sigwaitinfo(&both, &info);
        if (sig == SIGUSR1)
            raise(SIGSTOP);
        if (sig == SIGUSR2)
            _exit(getppid() == parent && info.si_pid == parent ? 7 : 8);
    }
}

/* SIGCHLD interrupts. */
static int wait_for(pid_t pid, int how, int *status)
{
    pid_t got;
    while ((got = waitpid(pid, status, how)) < 0 && errno == EINTR)
        ;
    return got == pid;
}

int main(int argc, char **argv)
{
    begin_carried(argc, argv);
    alarm(120);
    struct sigaction act = {.sa_handler = on_child};
    check(sigaction(SIGCHLD, &act, NULL) == 0);
    block(SIGUSR1); /* for the children */
    block(SIGUSR2);
    pid_t child[CHILDREN], zombie = fork_child();
    if (zombie == 0)
        _exit(5);
    siginfo_t info;
    check(waitid(P_PID, zombie, &info, WEXITED | WNOWAIT) == 0);
    for (int i = 0; i < CHILDREN; i++)
        child[i] = child_of_mine();
    check(setpgid(child[2], child[2]) == 0);
    int before = told;
    phase();
    /* One that had ended before waits to be waited for; the others live. */
    check(told == before);
    check(waitpid(-1, NULL, WNOHANG | WUNTRACED) == zombie);
    check(waitpid(-1, NULL, WNOHANG) == 0);
    /* It stops and goes on. */
    check(kill(child[0], SIGUSR1) == 0);
    int status;
    check(wait_for(child[0], WUNTRACED, &status) && stopped(status, SIGSTOP));
    phase();
    check(waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED) == 0);
    sleep(2); /* where it has been nobody needs anything of it any more */
    phase();
    check(kill(child[0], SIGCONT) == 0);
    check(wait_for(child[0], WCONTINUED, &status) && WIFCONTINUED(status));
    phase();
    /* By its number, by its group, by waitid. */
    told = 0;
    check(kill(child[0], SIGUSR2) == 0 && exited(wait_status(child[0]), 7));
    until(told >= 1);
    check(kill(-child[2], SIGKILL) == 0);
    memset(&info, 0, sizeof info);
    check(waitid(P_PGID, child[2], &info, WEXITED) == 0);
    check(info.si_pid == child[2] && info.si_code == CLD_KILLED && info.si_status == SIGKILL);
    check(kill(child[2], 0) == -1 && errno == ESRCH);
    phase();
    check(kill(child[1], SIGTERM) == 0 && killed(wait_status(child[1]), SIGTERM));
    check(wait(NULL) == -1 && errno == ECHILD);
    return ok();
}
