/* Signals from several processes at once to one child elsewhere: every queued one arrives, by its sender. */
#include "prog.h"

enum { SENDERS = 4, EACH = 50 };

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        int next[SENDERS] = {0};
        pid_t sender[SENDERS] = {0};
        block(SIGRTMIN + 4);
        say(1, 'r');
        for (int i = 0; i < SENDERS * EACH; i++) {
            siginfo_t info = take(SIGRTMIN + 4);
            int value = info.si_value.sival_int, by = value / 1000;
            check(value % 1000 == next[by]++ && info.si_code == SI_QUEUE && info.si_uid == getuid());
            if (!sender[by])
                sender[by] = info.si_pid;
            check(info.si_pid == sender[by] && info.si_pid != getpid());
        }
        for (int s = 0; s < SENDERS; s++)
            dprintf(1, "%d\n", sender[s]);
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
        check(exited(wait_status(sender[s]), 0) && atoi(hear_line(child.out)) == sender[s]);
    check(exited(wait_status(child.pid), 0));
    return ok();
}
