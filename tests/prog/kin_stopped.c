/* A child that is stopped while it is carried about stays stopped, is told as that to a parent that has not heard yet, and goes on when it is continued, with what
 * it was sent. */
#include "prog.h"

enum { TO_EXIT = SIGUSR1, ROUNDS = 4 };

static pid_t stopped_child(int told)
{
    int status;
    pid_t child = fork_child();
    if (child == 0) {
        sigset_t set = set_of(TO_EXIT);
        int sig, null = open("/dev/null", O_RDWR);
        for (int fd = 0; fd < 3; fd++)
            check(dup2(null, fd) == fd);
        close(null);
        alarm(120);
        check(setpgid(0, 0) == 0 && kill(getppid(), SIGRTMIN) == 0);
        check(sigwait(&set, &sig) == 0);
        _exit(7);
    }
    take(SIGRTMIN);
    check(kill(child, SIGSTOP) == 0);
    if (told)
        check(waitpid(child, &status, WUNTRACED) == child && stopped(status, SIGSTOP));
    return child;
}

/* `told`: its parent has heard of the stop before they move. */
static void carried_stopped(int told)
{
    int status;
    pid_t child = stopped_child(told);
    phase_of(&child, 1);
    if (!told)
        check(waitpid(child, &status, WUNTRACED) == child && stopped(status, SIGSTOP));
    until(state_of(child) == 'T');
    /* Who stood here for it may have gone on for a moment, and have stopped again. */
    while (waitpid(child, &status, WNOHANG | WUNTRACED | WCONTINUED) > 0)
        check(WIFSTOPPED(status) || WIFCONTINUED(status));
    until(state_of(child) == 'T');
    check(kill(child, SIGCONT) == 0 && kill(child, TO_EXIT) == 0);
    check(exited(wait_status(child), 7));
}

int main(int argc, char **argv)
{
    begin_carried(argc, argv);
    alarm(120);
    block(SIGRTMIN);
    block(TO_EXIT);
    for (int i = 0; i < ROUNDS; i++)
        for (int told = 0; told < 2; told++)
            carried_stopped(told);
    check(wait(NULL) == -1 && errno == ECHILD);
    return ok();
}
