/* Ctrl-C and Ctrl-\ on a terminal reach the foreground group, all of it and only it. */
#include "pty.h"

int main(int argc, char **argv)
{
    char name[64];
    struct rlimit none = {0, 0};
    begin(argc, argv);
    if (role("job")) {
        say(1, 'r');
        pause_forever();
    }
    int master = open_pty(name), key[2];
    check(pipe2(key, O_CLOEXEC) == 0 && setrlimit(RLIMIT_CORE, &none) == 0);
    pid_t leader = fork_leader(name);
    if (leader == 0) {
        static const int sigs[] = {SIGINT, SIGQUIT};
        for (int i = 0; i < 2; i++) {
            int out[2];
            check(pipe2(out, O_CLOEXEC) == 0);
            pid_t child = job("job", 0, out[1]), background = job("job", 0, out[1]);
            foreground(child);
            check(hear(out[0]) == 'r' && hear(out[0]) == 'r');
            say(key[1], i ? '\x1c' : '\x03');
            check(wait_status(child) == sigs[i]);
            foreground(getpgrp());
            check(waitpid(background, NULL, WNOHANG) == 0 && kill(background, SIGKILL) == 0);
            check(killed(wait_status(background), SIGKILL));
        }
        _exit(61);
    }
    say(master, (char)hear(key[0]));
    say(master, (char)hear(key[0]));
    check(exited(wait_status(leader), 61));
    return ok();
}
