/* A job of three in one group on a terminal: one Ctrl-Z stops all, one Ctrl-C ends all. */
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
        pid_t part[3], group = 0;
        int out[2], status;
        check(pipe2(out, O_CLOEXEC) == 0);
        for (int i = 0; i < 3; i++) {
            part[i] = fork_child();
            if (part[i] == 0) {
                check(setpgid(0, group) == 0 && dup2(out[1], 1) == 1);
                become("job");
            }
            group = part[0];
            setpgid(part[i], group);
        }
        foreground(group);
        for (int i = 0; i < 3; i++)
            check(hear(out[0]) == 'r');
        say(key[1], '\x1a');
        for (int i = 0; i < 3; i++)
            check(waitpid(part[i], &status, WUNTRACED) == part[i] && stopped(status, SIGTSTP));
        check(kill(-group, SIGCONT) == 0);
        for (int i = 0; i < 3; i++)
            check(waitpid(part[i], &status, WCONTINUED) == part[i] && WIFCONTINUED(status));
        say(key[1], '\x03');
        for (int i = 0; i < 3; i++)
            check(killed(wait_status(part[i]), SIGINT));
        _exit(68);
    }
    say(master, (char)hear(key[0]));
    say(master, (char)hear(key[0]));
    check(exited(wait_status(leader), 68));
    return ok();
}
