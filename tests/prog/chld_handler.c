/* A SIGCHLD handler that reaps all that has ended: no child is left out, though signals coalesce. */
#include "prog.h"

static volatile sig_atomic_t reaped;

static void on_child(int sig)
{
    int saved = errno, status;
    (void)sig;
    while (waitpid(-1, &status, WNOHANG) > 0) {
        check(exited(status, 24));
        reaped++;
    }
    errno = saved;
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child"))
        return 24;
    struct sigaction act = {.sa_handler = on_child, .sa_flags = SA_RESTART};
    sigset_t old, set = set_of(SIGCHLD);
    check(sigaction(SIGCHLD, &act, NULL) == 0);
    for (int i = 0; i < 16; i++)
        spawn_child("child");
    check(sigprocmask(SIG_BLOCK, &set, &old) == 0);
    while (reaped < 16)
        sigsuspend(&old);
    check(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
    return ok();
}
