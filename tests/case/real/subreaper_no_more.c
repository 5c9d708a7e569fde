/* A subreaper that is one no more as soon as it has waited for its child is the parent of what that child leaves. Each that gets SIGUSR1 goes on; the grandchild ends with 4 if that is its parent. */
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t told;

static void note(int sig)
{
    (void)sig;
    told = 1;
}

static void until_told(void)
{
    sigset_t usr1, old;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    sigprocmask(SIG_BLOCK, &usr1, &old);
    while (!told)
        sigsuspend(&old);
    told = 0;
    sigprocmask(SIG_SETMASK, &old, NULL);
}

static int grandchild(pid_t subreaper)
{
    until_told();
    return getppid() == subreaper ? 4 : 5;
}

static int child(pid_t subreaper)
{
    pid_t pid = fork();
    if (pid == 0)
        return grandchild(subreaper);
    fprintf(stderr, "%d %d %d\n", subreaper, getpid(), pid);
    until_told();
    return 3;
}

int main(void)
{
    int status;
    signal(SIGUSR1, note);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    pid_t subreaper = getpid(), pid = fork();
    if (pid == 0)
        return child(subreaper);
    waitpid(pid, &status, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    printf("%d", WEXITSTATUS(status));
    fflush(stdout);
    while (waitpid(-1, &status, 0) > 0)
        printf(" %d", WEXITSTATUS(status));
    return putchar('\n') != '\n';
}
