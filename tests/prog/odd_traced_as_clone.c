/* waitid(2) with __WCLONE and without __WALL passes over ordinary children, but finds whomever a thread of the process traces, whoever's child that is, and in whatever
 * state (linux: eligible_child, "ptrace ||"; do_wait looks at all threads without __WNOTHREAD). So ECHILD says that the process traces nobody. */
#include "prog.h"
#include <sys/ptrace.h>

enum { STACK = 64 * 1024 };

/* Of kin of this kind it has none. */
static int has_none(int kind)
{
    int all = WEXITED | WSTOPPED | WCONTINUED;
    int done = waitid(P_ALL, 0, NULL, all | WNOHANG | WNOWAIT | kind);
    check(done == 0 || errno == ECHILD);
    return done != 0;
}

static int traces_nobody(void) { return has_none(__WCLONE); }

static pid_t sleeper(void)
{
    pid_t pid = fork();
    check(pid >= 0);
    while (pid == 0)
        pause();
    return pid;
}

static void ends(pid_t pid, int how)
{
    check(kill(pid, SIGKILL) == 0 || errno == ESRCH);
    check(waitpid(pid, NULL, how) == pid);
}

static void seize(pid_t pid) { check(ptrace(PTRACE_SEIZE, pid, 0, 0) == 0); }

static void let_go(pid_t pid)
{
    check(ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0 && waitpid(pid, NULL, __WALL) == pid);
    check(ptrace(PTRACE_DETACH, pid, 0, 0) == 0);
}

static pid_t other;
static int turns[2];

static void turn(int end)
{
    char byte = 0;
    check(end ? write(turns[1], &byte, 1) == 1 : read(turns[0], &byte, 1) == 1);
}

static void *by_a_thread(void *done)
{
    seize(other);
    check(write(*(int *)done, "", 1) == 1);
    turn(0);
    let_go(other);
    return NULL;
}

static int in_a_clone(void *unused)
{
    (void)unused;
    while (1)
        pause();
    return 0;
}

/* One that is another's child. */
static pid_t grandchild(pid_t *between)
{
    int told[2];
    pid_t pid;
    check(pipe(told) == 0);
    *between = fork();
    check(*between >= 0);
    if (*between == 0) {
        pid = sleeper();
        check(write(told[1], &pid, sizeof pid) == sizeof pid);
        waitpid(pid, NULL, 0);
        for (;;)
            pause();
    }
    check(read(told[0], &pid, sizeof pid) == sizeof pid);
    close(told[0]);
    close(told[1]);
    return pid;
}

static void one_that_is_its_child(void)
{
    pid_t child = sleeper();
    check(traces_nobody() && !has_none(0));
    seize(child);
    check(!traces_nobody());
    let_go(child);
    check(traces_nobody());
    ends(child, 0);

    child = fork(); /* it wants to be traced itself */
    check(child >= 0);
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        _exit(0);
    }
    siginfo_t info;
    check(waitid(P_PID, child, &info, WSTOPPED | WNOWAIT) == 0);
    check(!traces_nobody());
    ends(child, __WALL);
}

static void one_that_is_not(void)
{
    pid_t between;
    other = grandchild(&between);
    check(traces_nobody());
    seize(other);
    check(!traces_nobody() && !has_none(0));
    check(ptrace(PTRACE_INTERRUPT, other, 0, 0) == 0);
    siginfo_t info;
    check(waitid(P_PID, other, &info, WSTOPPED | WNOWAIT | __WALL) == 0);
    check(!traces_nobody()); /* it stands still, of which it was told */
    check(waitpid(other, NULL, __WALL) == other);
    check(!traces_nobody()); /* and has taken that */
    check(ptrace(PTRACE_DETACH, other, 0, 0) == 0);
    check(traces_nobody());

    int done[2];
    char byte;
    pthread_t thread;
    check(pipe(done) == 0 && pipe(turns) == 0);
    check(pthread_create(&thread, NULL, by_a_thread, &done[1]) == 0);
    check(read(done[0], &byte, 1) == 1);
    check(!traces_nobody());
    turn(1);
    check(pthread_join(thread, NULL) == 0);
    check(traces_nobody());

    seize(other);
    check(kill(other, SIGKILL) == 0);
    check(waitid(P_PID, other, &info, WEXITED | WNOWAIT | __WALL) == 0);
    check(!traces_nobody()); /* it has ended, and was not waited for */
    check(waitpid(other, NULL, __WALL) == other);
    check(traces_nobody());
    ends(between, 0);
}

/* Whom somebody else traces is not its business. */
static void traced_by_another(void)
{
    int told[2];
    char byte;
    pid_t child = sleeper();
    check(pipe(told) == 0);
    pid_t tracer = fork();
    check(tracer >= 0);
    if (tracer == 0) {
        seize(child);
        check(write(told[1], "", 1) == 1);
        for (;;)
            pause();
    }
    check(read(told[0], &byte, 1) == 1);
    check(traces_nobody());
    ends(tracer, 0);
    ends(child, 0);
}

/* A child with another signal than SIGCHLD is found too; that of both kinds whom it traces shows where it has no children of one kind. */
static void clones(void)
{
    char *stack = malloc(STACK);
    check(stack != NULL);
    pid_t clone_child = clone(in_a_clone, stack + STACK, SIGUSR2, NULL), between;
    check(clone_child > 0);
    check(!traces_nobody() && has_none(0));
    other = grandchild(&between);
    check(!traces_nobody() && !has_none(0));
    ends(clone_child, __WCLONE);
    check(traces_nobody() && !has_none(0));
    kill(other, SIGKILL);
    ends(between, 0);
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    signal(SIGUSR2, SIG_IGN);
    check(traces_nobody() && has_none(0));
    one_that_is_its_child();
    one_that_is_not();
    traced_by_another();
    clones();
    check(traces_nobody() && has_none(0));
    return ok();
}
