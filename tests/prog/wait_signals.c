/* A child elsewhere that dies of a signal of its own: the parent sees that signal, and no core. */
#include "prog.h"

int main(int argc, char **argv)
{
    static const int sigs[] = {SIGHUP, SIGINT, SIGQUIT, SIGABRT, SIGKILL, SIGUSR1, SIGSEGV, SIGUSR2, SIGPIPE, SIGALRM,
                               SIGTERM, SIGSYS, SIGXCPU, SIGVTALRM, SIGIO, SIGBUS};
    struct rlimit none = {0, 0};
    begin(argc, argv);
    if (role("child")) {
        int sig = atoi(arg(1));
        if (sig != SIGKILL)
            check(signal(sig, SIG_DFL) != SIG_ERR);
        raise(sig);
        return 1;
    }
    check(setrlimit(RLIMIT_CORE, &none) == 0);
    for (size_t i = 0; i < sizeof sigs / sizeof *sigs; i++)
        check(wait_status(spawn_child("child", text(sigs[i]))) == sigs[i]);
    check(wait_status(spawn_child("child", text(SIGRTMIN))) == SIGRTMIN);
    check(wait_status(spawn_child("child", text(SIGRTMAX))) == SIGRTMAX);
    return ok();
}
