/* The parent sends the group that its child leads a real-time signal each millisecond, until it gets SIGTERM itself: the child has had each of them once. */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t had, ends;

static void count(int sig)
{
    (void)sig;
    had++;
}

static void end(int sig)
{
    (void)sig;
    ends = 1;
}

static void handle(int sig, void (*handler)(int))
{
    /* Not to be interrupted is up to the kernel: see odd_notice_interrupted.c. */
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(sig, &action, NULL);
}

static void pause_a_little(void)
{
    struct timespec pause = {.tv_nsec = 1000000};
    nanosleep(&pause, NULL);
}

/* The last one, which is blocked, comes behind all others. */
static int child(void)
{
    sigset_t last, pending;
    sigemptyset(&last);
    sigaddset(&last, SIGRTMIN + 1);
    sigprocmask(SIG_BLOCK, &last, NULL);
    do {
        pause_a_little();
        sigpending(&pending);
    } while (!sigismember(&pending, SIGRTMIN + 1));
    return printf("had %d\n", (int)had) < 0;
}

int main(void)
{
    int sent = 0, failed = 0, status;
    handle(SIGRTMIN, count);
    handle(SIGTERM, end);
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        return child();
    }
    setpgid(pid, pid);
    pause_a_little();
    fprintf(stderr, "%d %d\n", getpid(), pid);
    for (; !ends; sent++) {
        int result = kill(-pid, SIGRTMIN);
        if (result)
            perror("kill");
        failed += result != 0;
        pause_a_little();
    }
    kill(-pid, SIGRTMIN + 1);
    waitpid(pid, &status, 0);
    printf("had %d, %d failed, status %d\n", sent, failed, status);
    return 0;
}
