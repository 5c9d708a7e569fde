/* Children of one image: each has the memory of its parent, its own number, and knows which of all it is. Arguments: how many nodes, MiB of memory, "held", "down" or "ignored". With "held" another
 * thread of the parent holds a lock of the C library meanwhile; with "down" the last node is there no more, or will be lost; with "ignored" the parent ignores SIGCHLD. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <shoal.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/bproc.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUST(what) \
    do { \
        if (!(what)) { \
            printf("line %d: %s: %s: %s\n", __LINE__, #what, bproc_strerror(errno), shoal_error()); \
            exit(100); \
        } \
    } while (0)
#define MOST 64

static volatile sig_atomic_t got;
static void hear(int sig)
{
    got += sig;
}

static void *works(void *nothing)
{
    for (;;)
        free(malloc(100));
    return nothing;
}

static unsigned sum(const unsigned *memory, size_t count)
{
    unsigned all = 0;
    for (size_t i = 0; i < count; i++)
        all = all * 31 + memory[i];
    return all;
}

/* Signals to itself and locks go by the number that the C library knows. */
static void is_itself(pid_t parent)
{
    pthread_mutex_t lock = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
    MUST(getppid() == parent && getpid() != parent && syscall(SYS_gettid) == getpid());
    signal(SIGUSR1, hear);
    MUST(raise(SIGUSR1) == 0 && pthread_kill(pthread_self(), SIGUSR1) == 0 && got == 2 * SIGUSR1);
    MUST(pthread_mutex_lock(&lock) == 0 && pthread_mutex_lock(&lock) == EDEADLK && pthread_mutex_unlock(&lock) == 0);
    pid_t child = fork();
    if (child == 0)
        _exit(3);
    int status;
    MUST(child > 0 && waitpid(child, &status, 0) == child && status == 3 << 8);
    MUST(waitpid(-1, &status, __WALL) == -1 && errno == ECHILD);
}

int main(int argc, char **argv)
{
    int nodes = atoi(argv[1]), n = 2 * nodes, where[MOST], pids[MOST], rank, i, status, later = 0;
    size_t count = (size_t)atoi(argv[2]) << 18;
    const char *how = argc > 3 ? argv[3] : "";
    unsigned *memory = malloc(count * 4 + 4), expected;
    pid_t own = getpid();
    pthread_t thread;
    MUST(n <= MOST && memory);
    for (size_t at = 0; at < count; at++)
        memory[at] = (unsigned)random();
    expected = sum(memory, count);
    if (strcmp(how, "held") == 0)
        MUST(pthread_create(&thread, NULL, works, NULL) == 0);
    if (strcmp(how, "ignored") == 0)
        signal(SIGCHLD, SIG_IGN);
    for (i = 0; i < n; i++)
        where[i] = i % nodes;
    rank = bproc_vrfork(n, where, pids);
    if (rank >= 0 && rank < n) {
        MUST(bproc_currnode() == where[rank] && sum(memory, count) == expected);
        signal(SIGCHLD, SIG_DFL);
        is_itself(own);
        printf("%d is there\n", rank);
        fflush(stdout);
        exit(rank);
    }
    MUST(rank == n);
    for (i = 0; i < n; i++) {
        if (strcmp(how, "down") == 0 && where[i] == nodes - 1) {
            MUST(pids[i] < 0);
            continue;
        }
        MUST(pids[i] > 0);
        /* Who is written is forked when all others have begun. */
        later += i > 0 && pids[i] < pids[0];
    }
    printf("of one image: %d\n", later);
    for (i = 0; i < n; i++)
        if (strcmp(how, "ignored") == 0)
            MUST(waitpid(pids[i], &status, 0) == -1 && errno == ECHILD);
        else if (pids[i] > 0)
            MUST(waitpid(pids[i], &status, 0) == pids[i] && WIFEXITED(status) && WEXITSTATUS(status) == i);
    MUST(waitpid(-1, &status, __WALL) == -1 && errno == ECHILD);
    printf("ok\n");
    return 0;
}
