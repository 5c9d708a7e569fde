/* A handler in the child runs once for each signal that was sent and answered: 100 in turn. */
#include "prog.h"

static void on_usr1(int sig, siginfo_t *info, void *context)
{
    (void)sig;
    (void)context;
    say(1, info->si_pid == getppid() ? 'u' : '?');
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        struct sigaction act = {.sa_sigaction = on_usr1, .sa_flags = SA_SIGINFO};
        check(sigaction(SIGUSR1, &act, NULL) == 0);
        say(1, 'r');
        pause_forever();
    }
    struct piped child = spawn_piped("child");
    check(hear(child.out) == 'r');
    for (int i = 0; i < 100; i++)
        check(kill(child.pid, SIGUSR1) == 0 && hear(child.out) == 'u');
    check(kill(child.pid, SIGTERM) == 0 && killed(wait_status(child.pid), SIGTERM));
    check(hear(child.out) == -1);
    return ok();
}
