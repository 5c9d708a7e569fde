/* A forked child starts with no pending signal and no alarm, but with the mask of its parent. */
#include "prog.h"

int main(int argc, char **argv)
{
    sigset_t pending, mask;
    begin(argc, argv);
    block(SIGUSR1);
    check(kill(getpid(), SIGUSR1) == 0);
    pid_t child = fork();
    check(child >= 0);
    if (child == 0) {
        check(alarm(DEADLINE_S) == 0);
        check(sigpending(&pending) == 0 && !sigismember(&pending, SIGUSR1));
        check(sigprocmask(SIG_BLOCK, NULL, &mask) == 0 && sigismember(&mask, SIGUSR1));
        _exit(0);
    }
    check(exited(wait_status(child), 0));
    check(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1));
    return ok();
}
