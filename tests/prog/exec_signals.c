/* exec keeps ignored signals, the mask and what is pending; handled signals go back to their default. */
#include "prog.h"

static void handler(int sig) { (void)sig; }

int main(int argc, char **argv)
{
    struct sigaction act;
    sigset_t set;
    begin(argc, argv);
    if (role("after")) {
        check(sigaction(SIGUSR1, NULL, &act) == 0 && act.sa_handler == SIG_DFL);
        check(sigaction(SIGUSR2, NULL, &act) == 0 && act.sa_handler == SIG_IGN);
        check(sigprocmask(SIG_BLOCK, NULL, &set) == 0 && sigismember(&set, SIGTERM) && !sigismember(&set, SIGINT));
        check(sigpending(&set) == 0 && sigismember(&set, SIGTERM));
        return 35;
    }
    pid_t child = fork_child();
    if (child == 0) {
        check(signal(SIGUSR1, handler) != SIG_ERR && signal(SIGUSR2, SIG_IGN) != SIG_ERR);
        block(SIGTERM);
        check(raise(SIGTERM) == 0);
        execl("/proc/self/exe", "exec_signals", "after", NULL);
        check(!"exec");
    }
    check(exited(wait_status(child), 35));
    return ok();
}
