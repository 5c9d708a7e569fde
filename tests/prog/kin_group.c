/* The leader of a session, the leader of a group below it and members of that, one a grandchild, part and meet: a signal to the group reaches all, whoever of
 * them sends it, all stop and go on with it, and it is the same group and session to everybody. When its leader has ended the group lives on. */
#include "prog.h"

enum { ASKED = SIGUSR1, TO_EXIT = SIGTERM };
#define TO_ASK SIGRTMIN
#define ANSWERED (SIGRTMIN + 1)

static pid_t top, session, group;

/* ASKED is answered, to the one at the top, with whether all is right; TO_ASK has this one ask the whole group; TO_EXIT is its end. */
static void obey(void)
{
    sigset_t all = set_of(ASKED);
    sigaddset(&all, TO_ASK);
    sigaddset(&all, TO_EXIT);
    for (;;) {
        siginfo_t info;
        int sig = sigwaitinfo(&all, &info);
        if (sig == TO_ASK)
            check(kill(0, ASKED) == 0);
        if (sig == ASKED)
            check(sigqueue(top, ANSWERED, (union sigval){.sival_int = getpgrp() == group && getsid(0) == session}) == 0);
        if (sig == TO_EXIT) {
            while (wait(NULL) > 0 || errno == EINTR)
                ;
            _exit(7);
        }
    }
}

/* Of a group that it leads, or of `in`; `with_child`: and so is a child of it, whose number it tells. */
static pid_t begin_child(pid_t in, int with_child)
{
    pid_t pid = fork_child();
    if (pid)
        return pid;
    alarm(120);
    check(setpgid(0, in) == 0);
    group = getpgrp();
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++)
        check(dup2(null, fd) == fd);
    close(null);
    pid_t child = with_child ? fork_child() : 0;
    if (child == 0 && with_child)
        alarm(120);
    if (child || !with_child)
        check(sigqueue(top, ANSWERED, (union sigval){.sival_int = child}) == 0);
    obey();
    return 0;
}

/* So many answers, from as many processes, and all is right. */
static void expect(int count)
{
    pid_t seen[4];
    for (int i = 0; i < count; i++) {
        siginfo_t info = take(ANSWERED);
        for (int k = 0; k < i; k++)
            check(seen[k] != info.si_pid);
        check(info.si_value.sival_int == 1);
        seen[i] = info.si_pid;
    }
    sigset_t more = set_of(ANSWERED);
    check(sigtimedwait(&more, NULL, &(struct timespec){0}) == -1);
}

static void exercise(const pid_t *children, int count, pid_t grandchild)
{
    int status;
    check(kill(-group, ASKED) == 0);
    expect(count + 1);
    check(kill(children[count - 1], TO_ASK) == 0);
    expect(count + 1);
    check(kill(grandchild, TO_ASK) == 0);
    expect(count + 1);
    check(kill(-group, SIGSTOP) == 0);
    for (int i = 0; i < count; i++)
        check(waitpid(children[i], &status, WUNTRACED) == children[i] && stopped(status, SIGSTOP));
    check(kill(-group, SIGCONT) == 0);
    for (int i = 0; i < count; i++)
        check(waitpid(children[i], &status, WCONTINUED) == children[i] && WIFCONTINUED(status));
    for (int i = 0; i < count; i++)
        check(getpgid(children[i]) == group && getsid(children[i]) == session);
    check(getpgid(grandchild) == group && getsid(grandchild) == session);
}

int main(int argc, char **argv)
{
    begin_carried(argc, argv);
    alarm(120);
    check(setsid() >= 0 || errno == EPERM);
    top = getpid();
    session = getsid(0);
    block(ASKED);
    block(TO_ASK);
    block(ANSWERED);
    block(TO_EXIT);
    pid_t leader = group = begin_child(0, 0);
    check(take(ANSWERED).si_value.sival_int == 0);
    pid_t member = begin_child(group, 1), grandchild = take(ANSWERED).si_value.sival_int;
    const pid_t both[] = {leader, member};
    exercise(both, 2, grandchild);
    phase_of(&leader, 1);
    exercise(both, 2, grandchild);
    phase_of((pid_t[]){member, grandchild}, 2);
    exercise(both, 2, grandchild);
    phase_of((pid_t[]){top, leader, grandchild}, 3);
    exercise(both, 2, grandchild);
    phase_of((pid_t[]){grandchild, member, leader, top}, 4);
    exercise(both, 2, grandchild);
    check(kill(leader, TO_EXIT) == 0 && exited(wait_status(leader), 7));
    exercise(&member, 1, grandchild);
    phase_of((pid_t[]){grandchild, top}, 2);
    exercise(&member, 1, grandchild);
    check(kill(-group, TO_EXIT) == 0 && exited(wait_status(member), 7));
    until(kill(-group, 0) == -1 && errno == ESRCH);
    return ok();
}
