/* Signals from several processes at once to one child elsewhere: every queued one arrives, by its sender. */
#include "prog.h"

enum { SENDERS = 4, EACH = 50 };

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        int next[SENDERS] = {0};
        block(SIGRTMIN + 4);
        say(1, 'r');
        for (int i = 0; i < SENDERS * EACH; i++) {
            int value = take(SIGRTMIN + 4).si_value.sival_int;
            check(value % 1000 == next[value / 1000]++);
        }
        return 0;
    }
    struct piped child = spawn_piped("child");
    pid_t sender[SENDERS];
    check(hear(child.out) == 'r');
    for (int s = 0; s < SENDERS; s++) {
        sender[s] = fork_child();
        for (int i = 0; sender[s] == 0 && i < EACH; i++) {
            union sigval value = {.sival_int = s * 1000 + i};
            check(sigqueue(child.pid, SIGRTMIN + 4, value) == 0);
        }
        if (sender[s] == 0)
            _exit(0);
    }
    for (int s = 0; s < SENDERS; s++)
        check(exited(wait_status(sender[s]), 0));
    check(exited(wait_status(child.pid), 0));
    return ok();
}
