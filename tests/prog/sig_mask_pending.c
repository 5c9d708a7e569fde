/* A signal from elsewhere to a child that blocks it stays pending until it is let in. */
#include "prog.h"

static void on_usr1(int sig)
{
    (void)sig;
    _exit(52);
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        sigset_t set = set_of(SIGUSR1), now;
        check(signal(SIGUSR1, on_usr1) != SIG_ERR && sigprocmask(SIG_BLOCK, &set, NULL) == 0);
        say(1, 'r');
        until(sigpending(&now) == 0 && sigismember(&now, SIGUSR1));
        say(1, 'p');
        check(hear(0) == 'g');
        check(sigprocmask(SIG_UNBLOCK, &set, NULL) == 0);
        return 1;
    }
    struct piped child = spawn_piped("child");
    check(hear(child.out) == 'r' && kill(child.pid, SIGUSR1) == 0 && hear(child.out) == 'p');
    check(waitpid(child.pid, NULL, WNOHANG) == 0);
    say(child.in, 'g');
    check(exited(wait_status(child.pid), 52));
    return ok();
}
