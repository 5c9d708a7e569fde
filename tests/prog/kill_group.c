/* kill of a group reaches all its members, here and elsewhere, once each, and nobody else. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        struct timespec none = {0, 0};
        sigset_t set = set_of(SIGRTMIN); /* which queues, so that a second one would be seen */
        block(SIGRTMIN);
        block(SIGRTMIN + 1);
        say(1, 'r');
        take(SIGRTMIN + 1);
        for (int i = 0; i < *arg(1) - '0'; i++)
            check(sigtimedwait(&set, NULL, &none) == SIGRTMIN);
        check(sigtimedwait(&set, NULL, &none) == -1 && errno == EAGAIN);
        return 36;
    }
    pid_t member[5], group = 0;
    int out[2];
    check(pipe2(out, O_CLOEXEC) == 0);
    for (int i = 0; i < 5; i++) {
        member[i] = fork_child();
        if (member[i] == 0) {
            check(setpgid(0, group) == 0 && dup2(out[1], 1) == 1);
            become("child", "3");
        }
        if (i == 0)
            group = member[0];
        setpgid(member[i], group);
    }
    struct piped outside = spawn_piped("child", "0");
    check(hear(outside.out) == 'r');
    for (int i = 0; i < 5; i++)
        check(hear(out[0]) == 'r');
    for (int i = 0; i < 3; i++)
        check(kill(-group, SIGRTMIN) == 0);
    check(kill(-group, SIGRTMIN + 1) == 0);
    for (int i = 0; i < 5; i++)
        check(exited(wait_status(member[i]), 36));
    check(kill(-group, 0) == -1 && errno == ESRCH);
    check(waitpid(outside.pid, NULL, WNOHANG) == 0 && kill(outside.pid, SIGRTMIN + 1) == 0);
    check(exited(wait_status(outside.pid), 36));
    return ok();
}
