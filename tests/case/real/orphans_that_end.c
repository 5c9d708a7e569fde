/* A subreaper, its child and its grandchild; their numbers are written to the standard error. What the subreaper is told of is written to the output.
 *
 * waits: the grandchild ends on SIGUSR1, its parent waits for it and ends: nobody is left then.
 * zombie: its parent ends when that has ended, and does not wait for it.
 * deep: the child waits for the grandchild; that has a child of its own, which ends on SIGUSR1, and for which it does not wait: its number is the last then.
 * apart: on SIGUSR1 both say so; the child ends a while after that, and the grandchild a little later. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CHILD = 3, GRANDCHILD = 4 };

static void until_told(void)
{
    sigset_t usr1;
    int sig;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    sigwait(&usr1, &sig);
}

/* Says that it was told, and ends so many milliseconds later. */
static int later(int code, long ms)
{
    struct timespec time = { ms / 1000, ms % 1000 * 1000000 };
    until_told();
    fprintf(stderr, "told\n");
    nanosleep(&time, NULL);
    return code;
}

static int child(const char *how)
{
    int apart = strcmp(how, "apart") == 0, status;
    siginfo_t info;
    pid_t parent = getppid(), self = getpid(), pid = fork(), last;
    if (pid == 0) {
        if (apart)
            return later(GRANDCHILD, 1050);
        if (strcmp(how, "deep") == 0 && (last = fork()) != 0)
            fprintf(stderr, "%d %d %d\n", parent, getpid(), last);
        until_told();
        return GRANDCHILD;
    }
    if (strcmp(how, "deep") != 0)
        fprintf(stderr, "%d %d %d\n", parent, self, pid);
    if (apart)
        return later(CHILD, 1000);
    if (strcmp(how, "waits") == 0 || strcmp(how, "deep") == 0)
        waitpid(pid, &status, 0);
    else
        waitid(P_PID, pid, &info, WEXITED | WNOWAIT);
    return CHILD;
}

int main(int count, char **words)
{
    const char *how = count > 1 ? words[1] : "waits";
    sigset_t usr1;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    sigprocmask(SIG_BLOCK, &usr1, NULL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    pid_t pid = fork();
    int status = 0;
    if (pid == 0)
        return child(how);
    waitpid(pid, &status, 0);
    printf("%d", WEXITSTATUS(status));
    if (strcmp(how, "waits") == 0 && waitpid(-1, &status, WNOHANG | __WALL) == 0)
        printf(" and has a child");
    while (waitpid(-1, &status, __WALL) > 0)
        printf(" %d", WEXITSTATUS(status));
    return putchar('\n') != '\n';
}
