/* Ctrl-C ends a whole group of which a member forks all the while: no child is left that was made just before, nor any of
 * its children, orphans or not. */
#include "pty.h"

enum { ROUNDS = 6, MOST = 300, EARLY = 24, BRANCHES = 60, ORPHANED = 16 };

/* A job, that has the terminal, ends so many microseconds after its start, or after it has said that it runs. */
static void nobody_is_left_of(const char *name, int says, int us, int key)
{
    int out[2];
    check(pipe2(out, O_CLOEXEC) == 0);
    pid_t child = job(name, 0, out[1]);
    foreground(child);
    if (says)
        check(hear(out[0]) == 'r');
    usleep((useconds_t)us);
    say(key, '\x03');
    check(killed(wait_status(child), SIGINT));
    foreground(getpgrp());
    until(kill(-child, 0) < 0 && errno == ESRCH);
    close(out[0]);
    close(out[1]);
}

int main(int argc, char **argv)
{
    char name[64];
    begin(argc, argv);
    if (role("forker")) {
        for (int i = 0; i < MOST; i++) {
            pid_t pid = fork();
            check(pid >= 0);
            if (pid == 0)
                for (;;)
                    pause();
            if (i == 2)
                say(1, 'r');
            usleep(200);
        }
        for (;;)
            pause();
    }
    if (role("brancher")) {
        /* Not fork(3), which may block signals meanwhile: then the kernel leaves one too, if seldom. */
        for (int i = 0; i < BRANCHES; i++)
            if (syscall(SYS_fork) == 0) {
                syscall(SYS_fork);
                for (;;)
                    pause();
            }
        for (;;)
            pause();
    }
    if (role("daemoniser")) {
        for (int i = 0;; i++) {
            pid_t pid = fork();
            check(pid >= 0);
            if (pid == 0) {
                if (fork() != 0)
                    _exit(0);
                for (;;)
                    pause();
            }
            check(waitpid(pid, 0, 0) == pid);
            if (i == 2)
                say(1, 'r');
        }
    }
    int master = open_pty(name), key[2];
    check(pipe2(key, O_CLOEXEC) == 0);
    pid_t leader = fork_leader(name);
    if (leader == 0) {
        for (int i = 0; i < ROUNDS; i++)
            nobody_is_left_of("forker", 1, 500 * i, key[1]);
        /* At any moment of its start, and of its first forks. */
        for (int i = 0; i < EARLY; i++)
            nobody_is_left_of("brancher", 0, 500 * i, key[1]);
        /* The parent of each is gone at once. */
        for (int i = 0; i < ORPHANED; i++)
            nobody_is_left_of("daemoniser", 1, 1000 * i, key[1]);
        _exit(61);
    }
    for (int i = 0; i < ROUNDS + EARLY + ORPHANED; i++)
        say(master, (char)hear(key[0]));
    check(exited(wait_status(leader), 61));
    return ok();
}
