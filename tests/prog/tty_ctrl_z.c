/* Ctrl-Z stops the foreground job; its parent sees SIGTSTP, takes the terminal, and continues it later. */
#include "pty.h"

int main(int argc, char **argv)
{
    char name[64];
    begin(argc, argv);
    if (role("job")) {
        say(1, 'r');
        pause_forever();
    }
    int master = open_pty(name), key[2];
    check(pipe2(key, O_CLOEXEC) == 0);
    pid_t leader = fork_leader(name);
    if (leader == 0) {
        int out[2], status;
        check(pipe2(out, O_CLOEXEC) == 0);
        pid_t child = job("job", 0, out[1]);
        foreground(child);
        check(hear(out[0]) == 'r');
        for (int i = 0; i < 3; i++) {
            say(key[1], '\x1a');
            check(waitpid(child, &status, WUNTRACED) == child && stopped(status, SIGTSTP));
            foreground(getpgrp());
            check(state_of(child) == 'T');
            foreground(child);
            check(kill(-child, SIGCONT) == 0);
            check(waitpid(child, &status, WCONTINUED) == child && WIFCONTINUED(status));
        }
        say(key[1], '\x03');
        check(killed(wait_status(child), SIGINT));
        _exit(62);
    }
    for (int i = 0; i < 4; i++)
        say(master, (char)hear(key[0]));
    check(exited(wait_status(leader), 62));
    return ok();
}
