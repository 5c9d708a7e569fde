/* A family of three generations in two groups and two sessions. Each of the five signals each, by its number, as a thread, by a pidfd and by its group, and
 * each has every signal once and from whom sent it; each time the family is as it was made. clan FILE: writes their numbers to the file, then how often all
 * that has been gone through, over and over again, until SIGTERM. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* To the head: the answer, to the others: what to do, and what they send each other. */
#define ANSWER (SIGRTMIN + 1)
#define ORDER (SIGRTMIN + 2)
#define CALL (SIGRTMIN + 3)

enum { COUNT = 5, HEAD = -1, TROUBLE = 99, PATIENCE_S = 10 };
enum what { SAY_WHO, QUEUE, THREAD, PIDFD, GROUP };

/* The second's child is the third, the fourth's is the fifth. Who leads whose group. */
static const int PARENT[COUNT] = {HEAD, HEAD, 1, HEAD, 3};
static const int LEADER[COUNT] = {0, 0, 0, 3, 3};
static pid_t head, pids[COUNT];
static sigset_t ours;

/* What is sent along: who or what, and a number. */
static union sigval word(int what, pid_t number) { return (union sigval){.sival_ptr = (void *)((uintptr_t)what << 32 | (uint32_t)number)}; }
static int what_of(const siginfo_t *info) { return (int)((uintptr_t)info->si_value.sival_ptr >> 32); }
static pid_t number_of(const siginfo_t *info) { return (pid_t)(uintptr_t)info->si_value.sival_ptr; }

/* A call at which one moves may end with EINTR, as one that a signal interrupts. */
static int queue(pid_t pid, int sig, union sigval value)
{
    int result;
    while ((result = sigqueue(pid, sig, value)) == -1 && errno == EINTR)
        ;
    return result;
}

static int by_pidfd(pid_t pid)
{
    int fd = syscall(SYS_pidfd_open, pid, 0);
    int result = fd == -1 ? -1 : syscall(SYS_pidfd_send_signal, fd, CALL, NULL, 0);
    int error = errno;
    if (fd != -1)
        close(fd);
    errno = error;
    return result;
}

static int reach(enum what what, pid_t pid)
{
    switch (what) {
    case QUEUE:
        return queue(pid, CALL, word(0, 0));
    case THREAD:
        return syscall(SYS_tgkill, pid, pid, CALL);
    case PIDFD:
        return by_pidfd(pid);
    default:
        return kill(-pid, CALL);
    }
}

static void member(int me, pid_t parent)
{
    pid_t group = getpgrp(), session = getsid(0);
    siginfo_t info;
    for (;;) {
        if (sigwaitinfo(&ours, &info) == -1)
            continue;
        if (info.si_signo == CALL) {
            queue(head, ANSWER, word(me, info.si_pid));
            continue;
        }
        enum what what = what_of(&info);
        int result = 0;
        if (what == SAY_WHO) {
            if (getppid() != parent || getpgrp() != group || getsid(0) != session)
                printf("%d is a child of %d in %d, %d\n", me, getppid(), getpgrp(), getsid(0));
            queue(head, ANSWER, word(me, getppid()));
        } else {
            while ((result = reach(what, number_of(&info))) == -1 && errno == EINTR)
                ;
        }
        if (result == -1) {
            printf("%d, way %d to %d: %s\n", me, what, number_of(&info), strerror(errno));
            queue(head, ANSWER, word(TROUBLE, 0));
        }
    }
}

/* `false` when nothing comes in time. */
static int hear(siginfo_t *info)
{
    struct timespec patience = {.tv_sec = PATIENCE_S};
    int sig;
    while ((sig = sigtimedwait(&ours, info, &patience)) == -1 && errno == EINTR)
        ;
    return sig == ANSWER;
}

/* Makes this one and those below it. */
static void begin(int me)
{
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        if (me == 3)
            setsid();
        else if (PARENT[me] == HEAD)
            setpgid(0, me == LEADER[me] ? 0 : pids[LEADER[me]]);
        pids[me] = getpid();
        for (int child = me + 1; child < COUNT; child++)
            if (PARENT[child] == me)
                begin(child);
        queue(head, ANSWER, word(me, getpid()));
        member(me, parent);
    }
}

/* The whole family, one after the other: who joins a group finds it. */
static void begin_all(void)
{
    siginfo_t info;
    for (int me = 0; me < COUNT; me++) {
        if (PARENT[me] == HEAD)
            begin(me);
        while (pids[me] == 0 && hear(&info))
            pids[what_of(&info)] = number_of(&info);
    }
}

/* Each of `whom`, a set, answers once, and that with `number`, if one is given. */
static int all_answer(unsigned whom, pid_t number)
{
    siginfo_t info;
    while (whom != 0) {
        if (!hear(&info))
            return printf("of %x nothing is heard\n", whom), 0;
        int who = what_of(&info);
        if (who >= COUNT || !(whom >> who & 1) || info.si_pid != pids[who] || (number != 0 && number_of(&info) != number))
            return printf("%d of %d says %d, where %x are asked\n", who, info.si_pid, number_of(&info), whom), 0;
        whom &= ~(1u << who);
    }
    return 1;
}

static unsigned group_of(int leader)
{
    unsigned members = 0;
    for (int who = 0; who < COUNT; who++)
        members |= (unsigned)(LEADER[who] == leader) << who;
    return members;
}

static int once_through(void)
{
    for (int from = 0; from < COUNT; from++) {
        pid_t parent = PARENT[from] == HEAD ? head : pids[PARENT[from]];
        queue(pids[from], ORDER, word(SAY_WHO, 0));
        if (!all_answer(1u << from, parent))
            return 0;
        for (int to = 0; to < COUNT; to++) {
            for (int what = QUEUE; what <= (LEADER[to] == to ? GROUP : PIDFD); what++) {
                queue(pids[from], ORDER, word(what, pids[to]));
                if (!all_answer(what == GROUP ? group_of(to) : 1u << to, pids[from]))
                    return printf("way %d from %d to %d\n", what, from, to), 0;
            }
        }
    }
    return 1;
}

static volatile sig_atomic_t over;

static void end(int sig)
{
    (void)sig;
    over = 1;
}

int main(int argc, char **argv)
{
    int file = argc == 2 ? open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0666) : -1;
    struct sigaction action = {.sa_handler = end, .sa_flags = SA_RESTART};
    setvbuf(stdout, NULL, _IOLBF, 0);
    sigemptyset(&ours);
    for (int sig = ANSWER; sig <= CALL; sig++)
        sigaddset(&ours, sig);
    sigprocmask(SIG_BLOCK, &ours, NULL);
    head = getpid();
    begin_all();
    sigaction(SIGTERM, &action, NULL);
    dprintf(file, "%d", head);
    for (int who = 0; who < COUNT; who++)
        dprintf(file, " %d", pids[who]);
    dprintf(file, "\n");
    int well = 1;
    for (int times = 1; well && !over; times++) {
        well = once_through();
        dprintf(file, "%d\n", times);
    }
    puts(well ? "well" : "not well");
    for (int who = COUNT - 1; who >= 0; who--)
        kill(pids[who], SIGKILL);
    while (wait(NULL) > 0 || errno == EINTR)
        ;
    return !well;
}
