/* A child elsewhere inherits ignored signals and the mask. */
#include "prog.h"

static void handler(int sig) { (void)sig; }

int main(int argc, char **argv)
{
    struct sigaction act;
    sigset_t set;
    begin(argc, argv);
    if (role("child")) {
        check(sigaction(SIGUSR1, NULL, &act) == 0 && act.sa_handler == SIG_DFL);
        check(sigaction(SIGUSR2, NULL, &act) == 0 && act.sa_handler == SIG_IGN);
        check(sigaction(SIGHUP, NULL, &act) == 0 && act.sa_handler == SIG_IGN);
        check(sigprocmask(SIG_BLOCK, NULL, &set) == 0 && sigismember(&set, SIGTERM) && !sigismember(&set, SIGINT));
        check(sigismember(&set, SIGRTMIN + 1) && !sigismember(&set, SIGRTMIN + 2));
        return 0;
    }
    check(signal(SIGUSR1, handler) != SIG_ERR && signal(SIGUSR2, SIG_IGN) != SIG_ERR);
    check(signal(SIGHUP, SIG_IGN) != SIG_ERR);
    block(SIGTERM);
    block(SIGRTMIN + 1);
    check(exited(wait_status(spawn_child("child")), 0));
    return ok();
}
