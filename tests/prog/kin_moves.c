/* A parent and a child, of which one or both are carried about, wait for each other, signal each other, stop and go on as before. */
#include "prog.h"

static pid_t parent, child;

/* Sent back, by whom, and whether it has the parent that it is to have. */
enum { ASKED = SIGUSR1, ANSWERED = SIGUSR2, TO_EXIT = SIGTERM };

static void be_child(void)
{
    sigset_t both = set_of(ASKED);
    sigaddset(&both, TO_EXIT);
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++)
        check(dup2(null, fd) == fd);
    close(null);
    for (;;) {
        siginfo_t info;
        int sig;
        while ((sig = sigwaitinfo(&both, &info)) < 0)
            ;
        int right = info.si_pid == parent && getppid() == parent && getpgrp() == getpid();
        if (sig == TO_EXIT)
            _exit(right ? 7 : 8);
        if (kill(right ? getppid() : 1, ANSWERED) != 0)
            _exit(9);
    }
}

static void begin_child(void)
{
    child = fork_child();
    if (child == 0) {
        alarm(120);
        setpgid(0, 0);
        be_child();
    }
    check(setpgid(child, child) == 0 || errno == EACCES);
    /* Once it answers, nothing of it leads to anybody else. */
    check(kill(child, ASKED) == 0);
    take(ANSWERED);
}

/* All there is between the two; `by`: the child itself or its group. */
static void exercise(pid_t by)
{
    int status;
    check(kill(by, ASKED) == 0);
    siginfo_t info = take(ANSWERED);
    check(info.si_pid == child && info.si_uid == getuid());
    check(waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED) == 0);
    check(kill(by, SIGSTOP) == 0);
    check(waitpid(child, &status, WUNTRACED) == child && stopped(status, SIGSTOP));
    check(kill(by, ASKED) == 0 && kill(by, SIGCONT) == 0);
    memset(&info, 0, sizeof info);
    check(waitid(P_PGID, child, &info, WCONTINUED) == 0 && info.si_pid == child && info.si_code == CLD_CONTINUED);
    take(ANSWERED);
    check(getpgid(child) == child && getsid(child) == getsid(0));
}

/* The child ends, by itself or killed, and the next one is there. */
static void next_child(int kills)
{
    /* A SIGCHLD of its stops that is still pending would swallow that of its end. */
    sigset_t told = set_of(SIGCHLD);
    sigtimedwait(&told, NULL, &(struct timespec){0});
    check(kill(child, kills ? SIGKILL : TO_EXIT) == 0);
    siginfo_t info = take(SIGCHLD);
    while (info.si_code == CLD_STOPPED || info.si_code == CLD_CONTINUED)
        info = take(SIGCHLD);
    check(info.si_pid == child);
    int status = wait_status(child);
    check(kills ? killed(status, SIGKILL) : exited(status, 7));
    check(waitpid(child, NULL, 0) == -1 && errno == ECHILD);
    begin_child();
}

int main(int argc, char **argv)
{
    begin_carried(argc, argv);
    alarm(120);
    parent = getpid();
    block(ASKED);
    block(ANSWERED);
    block(TO_EXIT);
    block(SIGCHLD);
    begin_child();
    exercise(child);
    phase_of(&child, 1);
    exercise(child);
    exercise(-child);
    next_child(0);
    phase_of((pid_t[]){child, parent}, 2);
    exercise(child);
    next_child(1);
    phase_of((pid_t[]){parent, child}, 2);
    exercise(-child);
    next_child(0);
    phase_of(&parent, 1);
    exercise(child);
    phase_of(&child, 1);
    exercise(child);
    check(kill(child, TO_EXIT) == 0 && exited(wait_status(child), 7));
    return ok();
}
