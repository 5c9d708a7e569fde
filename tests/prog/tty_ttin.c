/* A background job that reads the terminal stops by SIGTTIN; in the foreground it gets the line. */
#include "pty.h"

int main(int argc, char **argv)
{
    char name[64];
    begin(argc, argv);
    if (role("job")) {
        char line[16];
        ssize_t n;
        do
            n = read(0, line, sizeof line);
        while (n == -1 && errno == EINTR);
        return n == 6 && memcmp(line, "hello\n", 6) == 0 ? 63 : 1;
    }
    int master = open_pty(name), key[2];
    check(pipe2(key, O_CLOEXEC) == 0);
    pid_t leader = fork_leader(name);
    if (leader == 0) {
        int status;
        pid_t child = job("job", 0, 1);
        check(waitpid(child, &status, WUNTRACED) == child && stopped(status, SIGTTIN));
        check(kill(-child, SIGCONT) == 0); /* still in the background: it stops again */
        check(waitpid(child, &status, WUNTRACED) == child && stopped(status, SIGTTIN));
        foreground(child);
        check(kill(-child, SIGCONT) == 0);
        say(key[1], 'g');
        check(exited(wait_status(child), 63));
        foreground(getpgrp());
        _exit(63);
    }
    check(hear(key[0]) == 'g' && write(master, "hello\n", 6) == 6);
    check(exited(wait_status(leader), 63));
    return ok();
}
