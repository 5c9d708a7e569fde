/* SIGCONT takes away pending stop signals, a stop signal takes away a pending SIGCONT. */
#include "prog.h"

static int pending(int sig)
{
    sigset_t set;
    check(sigpending(&set) == 0);
    return sigismember(&set, sig);
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    block(SIGTSTP);
    block(SIGCONT);
    check(kill(getpid(), SIGTSTP) == 0 && pending(SIGTSTP));
    check(signal(SIGCONT, on_deadline) != SIG_ERR); /* not the default, or it is dropped when sent */
    check(kill(getpid(), SIGCONT) == 0 && pending(SIGCONT) && !pending(SIGTSTP));
    check(kill(getpid(), SIGTSTP) == 0 && pending(SIGTSTP) && !pending(SIGCONT));
    check(kill(getpid(), SIGCONT) == 0 && !pending(SIGTSTP));
    return ok();
}
