// locks hold KIND FILE sh|ex: takes this lock, says "held", and lets it go at SIGUSR1, of which it says "free". SIGTERM ends it with 0.
// locks probe KIND FILE: takes the exclusive lock whenever it is free, and lets it go at once, until SIGTERM; says how often it was free.
// locks count KIND FILE TIMES: adds one to the number in FILE so often, in two steps with the exclusive lock between them.
// KIND: whole (flock), process (F_SETLK), file (F_OFD_SETLK).
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static const char *kind;
static volatile sig_atomic_t over;

static void end(int signal)
{
    (void)signal;
    over = 1;
}

static int locked(int fd, int type, int waits)
{
    if (!strcmp(kind, "whole"))
        return flock(fd, (type == F_UNLCK ? LOCK_UN : type == F_RDLCK ? LOCK_SH : LOCK_EX) | (waits ? 0 : LOCK_NB));
    int process = !strcmp(kind, "process");
    struct flock lock = {.l_type = type, .l_start = 7, .l_len = 5};
    return fcntl(fd, waits ? (process ? F_SETLKW : F_OFD_SETLKW) : (process ? F_SETLK : F_OFD_SETLK), &lock);
}

static int hold(int fd, int type)
{
    sigset_t all;
    int got;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, 0);
    if (locked(fd, type, 1))
        return 3;
    for (puts("held"); fflush(stdout) == 0 && sigwait(&all, &got) == 0 && got != SIGTERM;)
        if (got == SIGUSR1) {
            if (locked(fd, F_UNLCK, 0))
                return 4;
            puts("free");
        }
    return 0;
}

static int probe(int fd)
{
    long got = 0;
    signal(SIGTERM, end);
    for (; !over; usleep(20)) {
        if (locked(fd, F_WRLCK, 0))
            continue;
        got++;
        if (locked(fd, F_UNLCK, 0))
            return 4;
    }
    printf("%ld\n", got);
    return 0;
}

static int count(int fd, int times)
{
    for (int i = 0; i < times; i++) {
        char number[32] = "";
        while (locked(fd, F_WRLCK, 1))
            if (errno != EINTR)
                return 3;
        if (pread(fd, number, sizeof number - 1, 0) < 0)
            return 4;
        int next = atoi(number) + 1;
        usleep(500);
        snprintf(number, sizeof number, "%d\n", next);
        if (pwrite(fd, number, strlen(number), 0) < 0 || locked(fd, F_UNLCK, 0))
            return 5;
        usleep(500);
    }
    return 0;
}

int main(int argc, char **argv)
{
    int fd = argc > 3 ? open(argv[3], O_RDWR | O_CREAT, 0666) : -1;
    if (fd < 0)
        return 2;
    kind = argv[2];
    if (!strcmp(argv[1], "hold"))
        return hold(fd, !strcmp(argv[4], "sh") ? F_RDLCK : F_WRLCK);
    return !strcmp(argv[1], "probe") ? probe(fd) : count(fd, atoi(argv[4]));
}
