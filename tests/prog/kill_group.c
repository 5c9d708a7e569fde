/* kill of a group reaches all its members, here and elsewhere, and nobody else. */
#include "prog.h"

static void on_usr1(int sig)
{
    (void)sig;
    say(1, 'u');
    _exit(36);
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        check(signal(SIGUSR1, on_usr1) != SIG_ERR);
        say(1, 'r');
        pause_forever();
    }
    pid_t member[5], group = 0;
    int out[2];
    check(pipe2(out, O_CLOEXEC) == 0);
    for (int i = 0; i < 5; i++) {
        member[i] = fork_child();
        if (member[i] == 0) {
            check(setpgid(0, group) == 0 && dup2(out[1], 1) == 1);
            become("child");
        }
        if (i == 0)
            group = member[0];
        setpgid(member[i], group);
    }
    struct piped outside = spawn_piped("child");
    check(hear(outside.out) == 'r');
    for (int i = 0; i < 5; i++)
        check(hear(out[0]) == 'r');
    check(kill(-group, SIGUSR1) == 0);
    for (int i = 0; i < 5; i++)
        check(exited(wait_status(member[i]), 36));
    check(kill(-group, 0) == -1 && errno == ESRCH);
    check(waitpid(outside.pid, NULL, WNOHANG) == 0 && kill(outside.pid, SIGTERM) == 0);
    check(killed(wait_status(outside.pid), SIGTERM));
    return ok();
}
