// traces WHO VICTIM GO DONE: when there is a file GO, its first thread (WHO is "first") or another one ("other") begins to trace the process VICTIM, which is not its child, and
// stops it; it says so in DONE, and stays. When there is a file DONE.end it ends.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LARGE = 8 << 20 };

static char **files;
static int victim;

static void must(int yes, const char *doing)
{
    if (!yes) {
        perror(doing);
        exit(9);
    }
}

static void until_there_is(const char *file)
{
    while (access(file, F_OK))
        usleep(1000);
}

static void *trace(void *unused)
{
    char end[4096];
    until_there_is(files[0]);
    must(ptrace(PTRACE_SEIZE, victim, 0, 0) == 0, "begin the trace");
    must(ptrace(PTRACE_INTERRUPT, victim, 0, 0) == 0, "interrupt");
    must(waitpid(victim, NULL, __WALL) == victim, "wait for the stop");
    must(creat(files[1], 0666) >= 0, files[1]);
    snprintf(end, sizeof end, "%s.end", files[1]);
    until_there_is(end);
    exit(7);
    return unused;
}

int main(int argc, char **argv)
{
    must(argc == 5, "have four arguments");
    victim = atoi(argv[2]);
    files = argv + 3;
    // Enough to be copied while it runs, or to be left behind.
    char *large = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(large != MAP_FAILED, "map");
    memset(large, 1, LARGE);
    pthread_t thread;
    int other = !strcmp(argv[1], "other");
    must(!other || pthread_create(&thread, NULL, trace, NULL) == 0, "make a thread");
    printf("%d\n", getpid());
    fflush(stdout);
    if (!other)
        trace(NULL);
    for (;;)
        pause();
}
