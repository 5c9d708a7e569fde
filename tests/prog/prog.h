/* What the programs share: a check, a deadline, and children that may live elsewhere.
 *
 * A program prints "ok" and exits 0 when the system did what POSIX and Linux say. It knows of no cluster: a child that
 * may live elsewhere is made by spawn_child(), which forks and executes `$CHILD_PREFIX self role arguments`. With an
 * empty prefix that is plain fork and exec; in both cases the forked PID is the child's PID.
 */
#ifndef PROG_H
#define PROG_H
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAYBE __attribute__((unused)) static
/* This machine is so many times slower than others: an emulated one. */
#define SLOWER (getenv("SLOWER") ? atoi(getenv("SLOWER")) : 1)
/* In seconds, after the runner's, which looks at what is there first. */
#define DEADLINE_S (30 * (unsigned)SLOWER)

MAYBE const char *prog_role = "main";
MAYBE char **prog_args;
MAYBE int prog_argc;

#define check(cond)                                                                                                    \
    do {                                                                                                               \
        if (!(cond)) {                                                                                                 \
            int e_ = errno;                                                                                            \
            dprintf(2, "%s:%d: %s[%d]: %s: errno %d (%s)\n", __FILE__, __LINE__, prog_role, (int)getpid(), #cond, e_,    \
                    strerror(e_));                                                                                     \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

/* Wait for what has no event of its own; the deadline ends it. */
#define until(cond)                                                                                                    \
    while (!(cond))                                                                                                    \
    usleep(1000)

MAYBE void on_deadline(int sig)
{
    (void)sig;
    dprintf(2, "%s[%d]: deadline\n", prog_role, (int)getpid());
    _exit(1);
}

MAYBE void set_deadline(void)
{
    struct sigaction act = {.sa_handler = on_deadline};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    sigaction(SIGALRM, &act, NULL);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    alarm(DEADLINE_S);
}

/* Here these processes may be carried away and come back, or be on other machines: they do not care until this one goes on. */
MAYBE void phase_of(const pid_t *pids, int count)
{
    char answer, line[128] = "phase";
    int length = 5;
    ssize_t got;
    if (!getenv("PHASES"))
        return;
    for (int i = 0; i < count; i++)
        length += snprintf(line + length, sizeof line - (size_t)length, " %d", (int)pids[i]);
    line[length++] = '\n';
    check(write(1, line, (size_t)length) == length);
    while ((got = read(0, &answer, 1)) < 0 && errno == EINTR)
        ;
    check(got == 1);
}

MAYBE void phase(void) { phase_of(NULL, 0); }

/* What whoever started us ignores or blocks is not ours: a shell's background jobs ignore SIGINT. */
MAYBE void reset_signals(void)
{
    sigset_t none;
    for (int sig = 1; sig < NSIG; sig++)
        signal(sig, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

MAYBE void begin(int argc, char **argv)
{
    prog_argc = argc;
    prog_args = argv + 1;
    if (argc > 1)
        prog_role = argv[1];
    else
        reset_signals();
    set_deadline();
}

/* The same, for a program that is carried: nothing that whoever started us has left open is with it. */
MAYBE void begin_carried(int argc, char **argv)
{
    begin(argc, argv);
    check(syscall(SYS_close_range, 3, ~0U, 0) == 0);
}

MAYBE int role(const char *name) { return prog_argc > 1 && strcmp(prog_args[0], name) == 0; }
MAYBE const char *arg(int n) { return n + 1 < prog_argc ? prog_args[n] : ""; }

MAYBE int ok(void)
{
    puts("ok");
    return fflush(stdout) == 0 ? 0 : 1;
}

/* The number as text, in one of 16 rotating buffers. */
MAYBE const char *text(long n)
{
    static char buf[16][24];
    static int at;
    at = (at + 1) % 16;
    snprintf(buf[at], sizeof buf[at], "%ld", n);
    return buf[at];
}

/* Turn this process into `$CHILD_PREFIX self args…`. */
MAYBE void become_args(const char *const *args)
{
    static char self[PATH_MAX];
    const char *argv[128];
    int n = 0;
    const char *prefix = getenv("CHILD_PREFIX");
    char *copy = strdup(prefix ? prefix : ""), *save = NULL;
    for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save))
        argv[n++] = word;
    check(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    argv[n++] = self;
    for (; *args; args++)
        argv[n++] = *args;
    argv[n] = NULL;
    execvp(argv[0], (char *const *)argv);
    check(!"exec");
}
#define become(...) become_args((const char *[]){__VA_ARGS__, NULL})

/* fork, and in the child a deadline of its own. */
MAYBE pid_t fork_child(void)
{
    pid_t pid = fork();
    check(pid >= 0);
    if (pid == 0) {
        prog_role = "forked";
        alarm(DEADLINE_S);
    }
    return pid;
}

MAYBE pid_t spawn_args(const char *const *args)
{
    pid_t pid = fork_child();
    if (pid == 0)
        become_args(args);
    return pid;
}
/* A child in the role named by the first argument; it may live elsewhere. */
#define spawn_child(...) spawn_args((const char *[]){__VA_ARGS__, NULL})

struct piped {
    pid_t pid;
    int in;  /* write here what the child reads from 0 */
    int out; /* read here what the child writes to 1 */
};

MAYBE struct piped spawn_piped_args(const char *const *args)
{
    struct piped c;
    int in[2], out[2];
    check(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    c.pid = fork_child();
    if (c.pid == 0) {
        check(dup2(in[0], 0) == 0 && dup2(out[1], 1) == 1);
        become_args(args);
    }
    close(in[0]);
    close(out[1]);
    c.in = in[1];
    c.out = out[0];
    return c;
}
/* The same with pipes on its standard input and output. */
#define spawn_piped(...) spawn_piped_args((const char *[]){__VA_ARGS__, NULL})

/* One byte of handshake. hear() gives -1 at end of file. */
MAYBE void say(int fd, char byte) { check(write(fd, &byte, 1) == 1); }
MAYBE int hear(int fd)
{
    unsigned char byte;
    ssize_t n;
    do
        n = read(fd, &byte, 1);
    while (n < 0 && errno == EINTR);
    check(n >= 0);
    return n == 1 ? byte : -1;
}

/* A line of at most 255 bytes without its newline, in a static buffer; "" at end of file. */
MAYBE char *hear_line(int fd)
{
    static char line[256];
    int n = 0, byte;
    while (n < 255 && (byte = hear(fd)) != -1 && byte != '\n')
        line[n++] = (char)byte;
    line[n] = 0;
    return line;
}

MAYBE int wait_status(pid_t pid)
{
    int status;
    pid_t got;
    do
        got = waitpid(pid, &status, 0);
    while (got < 0 && errno == EINTR);
    check(got == pid);
    return status;
}
MAYBE int exited(int status, int code) { return WIFEXITED(status) && WEXITSTATUS(status) == code; }
MAYBE int killed(int status, int sig) { return WIFSIGNALED(status) && WTERMSIG(status) == sig; }
MAYBE int stopped(int status, int sig) { return WIFSTOPPED(status) && WSTOPSIG(status) == sig; }

MAYBE sigset_t set_of(int sig)
{
    sigset_t set;
    sigemptyset(&set);
    if (sig)
        sigaddset(&set, sig);
    return set;
}
MAYBE void block(int sig)
{
    sigset_t set = set_of(sig);
    check(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
}
/* Take the blocked signal `sig` from the queue; its siginfo. */
MAYBE siginfo_t take(int sig)
{
    sigset_t set = set_of(sig);
    siginfo_t info;
    int got;
    do
        got = sigwaitinfo(&set, &info);
    while (got < 0 && errno == EINTR);
    check(got == sig);
    return info;
}

/* Field `n` of /proc/PID/stat after the name: 0 state (as a character), 1 ppid, 2 pgrp, 3 session. -1: no process. */
MAYBE long stat_field(pid_t pid, int n)
{
    char path[40], buf[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t len = read(fd, buf, sizeof buf - 1);
    close(fd);
    if (len <= 0)
        return -1;
    buf[len] = 0;
    char *at = strrchr(buf, ')') + 2;
    for (int i = 0; i < n; i++)
        at = strchr(at, ' ') + 1;
    return n == 0 ? *at : atol(at);
}
MAYBE int state_of(pid_t pid) { return (int)stat_field(pid, 0); }

/* Until a signal that ends this process. */
MAYBE int pause_forever(void)
{
    while (pause() == -1)
        ;
    return 0;
}

/* Has the mapping at `at` this flag (with a blank before it) among those that smaps shows? */
MAYBE int has_flag(const char *at, const char *flag)
{
    char line[512];
    int here = 0, found = 0;
    FILE *f = fopen("/proc/self/smaps", "r");
    check(f);
    while (fgets(line, sizeof line, f)) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            here = from <= (unsigned long)at && (unsigned long)at < to;
        else if (here && strncmp(line, "VmFlags:", 8) == 0)
            found = strstr(line, flag) != NULL;
    }
    fclose(f);
    return found;
}

/* Does the kernel tell of memory that is locked as it is used (MLOCK_ONFAULT)? Linux 6.1 does not, so that nobody knows of it elsewhere. */
MAYBE int tells_what_is_locked_as_used(void)
{
    char *probe = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(probe != MAP_FAILED && mlock2(probe, 4096, MLOCK_ONFAULT) == 0);
    int tells = has_flag(probe, " lf");
    check(munmap(probe, 4096) == 0);
    return tells;
}

/* In a child of this process: a user that has no other process, so that kill(-1) reaches nobody else's. */
MAYBE void become_lone_user(void)
{
    uid_t uid = 1000000 + (uid_t)getpid();
    check(setresgid(uid, uid, uid) == 0 && setresuid(uid, uid, uid) == 0);
}

/* A child that stays, and is there: a program for whose role "stay" this begins. */
MAYBE struct piped spawn_staying(void)
{
    struct piped other = spawn_piped("stay");
    check(hear(other.out) == 'r');
    return other;
}
MAYBE int stay(void)
{
    say(1, 'r');
    return pause_forever();
}

/* Nobody has signalled it: it is ended now. */
MAYBE void end_staying(struct piped other)
{
    check(waitpid(other.pid, NULL, WNOHANG) == 0 && kill(other.pid, SIGKILL) == 0);
    check(killed(wait_status(other.pid), SIGKILL));
}

/* An orphan to be: lets go of its streams, tells its parent by SIGUSR1 that it may end, and whoever takes it then by `sig`. */
MAYBE int become_orphan(pid_t taker, int sig)
{
    for (int fd = 0; fd < 3; fd++)
        close(fd);
    check(kill(getppid(), SIGUSR1) == 0);
    until(getppid() == taker);
    check(kill(taker, sig) == 0);
    return pause_forever();
}
#endif
