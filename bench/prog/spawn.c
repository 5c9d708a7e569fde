/* Children on nodes by BProc's calls, and native ones. spawn MODE N MEGABYTES: prints the milliseconds until the call has returned, or, with "wait", until all have ended.
 * MODE: vrfork, vexecmove, fork, spawn (the last two on this machine). */
#define _GNU_SOURCE
#include <shoal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/bproc.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;
enum { MOST = 4096 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

int main(int argc, char **argv)
{
    static int nodes[MOST], pids[MOST];
    char *words[] = {"true", NULL};
    int n = argc > 2 ? atoi(argv[2]) : 0, i, done;
    size_t size = argc > 3 ? (size_t)atoi(argv[3]) << 20 : 0;
    unsigned char *memory = malloc(size + 1);
    double begin;
    if (memory == NULL || n <= 0 || n > MOST)
        return 2;
    /* Pages that are no other's, and not of zeroes. */
    for (size_t at = 0; at < size; at++)
        memory[at] = (unsigned char)rand();
    for (i = 0; i < n; i++)
        nodes[i] = i;
    begin = now();
    if (strcmp(argv[1], "vrfork") == 0) {
        done = bproc_vrfork(n, nodes, pids);
        if (done >= 0 && done < n)
            _exit(0);
    } else if (strcmp(argv[1], "vexecmove") == 0) {
        done = bproc_vexecmove(n, nodes, pids, "/bin/true", words, environ);
    } else if (strcmp(argv[1], "fork") == 0) {
        for (i = 0; i < n; i++) {
            pids[i] = fork();
            if (pids[i] == 0)
                _exit(0);
        }
        done = n;
    } else {
        for (i = 0; i < n; i++)
            if (posix_spawn(&pids[i], "/bin/true", NULL, NULL, words, environ) != 0)
                return 3;
        done = n;
    }
    if (done != n) {
        fprintf(stderr, "spawn: %s\n", shoal_error());
        return 1;
    }
    for (i = 0; i < n; i++) {
        int status;
        if (pids[i] <= 0 || waitpid(pids[i], &status, 0) != pids[i] || status != 0) {
            fprintf(stderr, "spawn: child %d: %d %s\n", i, pids[i], pids[i] < 0 ? bproc_strerror(pids[i]) : "");
            return 1;
        }
    }
    printf("%.3f\n", now() - begin);
    return 0;
}
