/* Many processes on nodes: one child on each of N nodes by bproc_vrfork, each of which forks EACH times. storm WHERE N EACH: "nodes", or "here" for children on this machine.
 * Prints the milliseconds until ps shows all, and from the kill of them until none is there any more. */
#define _GNU_SOURCE
#include <shoal.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/bproc.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 1024 };
enum { PATIENCE = 50000 };
static const struct timespec LOOK = {0, 5000000};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* How many processes of this group ps shows, itself and its shell not among them. */
static int shown(pid_t group)
{
    FILE *ps = popen("exec setsid ps -eo pgid=", "r");
    int count = 0, one;
    if (ps == NULL)
        return -1;
    while (fscanf(ps, "%d", &one) == 1)
        count += one == group;
    pclose(ps);
    return count;
}

/* Tasks of this machine, of which the sandbox's nodes are a part. */
static int tasks(void)
{
    FILE *file = fopen("/proc/loadavg", "r");
    int count = 0;
    if (file != NULL) {
        if (fscanf(file, "%*s %*s %*s %*d/%d", &count) != 1)
            count = 0;
        fclose(file);
    }
    return count;
}

/* Milliseconds from `begin` until ps shows as many as `wanted`, or no more. ps is asked when the number of tasks says that it is time, and every half second. */
static double until(double begin, pid_t group, int wanted, int more, int time)
{
    double asked = now();
    for (;;) {
        int count = tasks();
        if ((more ? count >= time : count <= time) || now() - asked > 500) {
            count = shown(group);
            if (more ? count >= wanted : count <= wanted)
                return now() - begin;
            asked = now();
        }
        if (now() - begin > PATIENCE) {
            fprintf(stderr, "storm: ps shows %d, and %d are waited for\n", shown(group), wanted);
            printf("NaN NaN\n");
            fflush(stdout);
            kill(-group, SIGKILL);
        }
        nanosleep(&LOOK, NULL);
    }
}

/* One child: it forks, and waits for a signal as its children do. */
static void grow(int each)
{
    signal(SIGTERM, SIG_DFL);
    for (int i = 0; i < each; i++) {
        pid_t child;
        while ((child = fork()) == -1)
            nanosleep(&LOOK, NULL);
        if (child == 0)
            break;
    }
    for (;;)
        pause();
}

int main(int argc, char **argv)
{
    static int nodes[MOST], pids[MOST];
    int n = argc > 3 ? atoi(argv[2]) : 0, each = argc > 3 ? atoi(argv[3]) : -1, status, done = n, before;
    double begin, all, gone;
    pid_t group;
    if (n <= 0 || n > MOST || each < 0)
        return 2;
    setpgid(0, 0);
    group = getpgrp();
    for (int i = 0; i < n; i++)
        nodes[i] = i;
    before = tasks();
    begin = now();
    if (strcmp(argv[1], "nodes") == 0) {
        done = bproc_vrfork(n, nodes, pids);
        if (done >= 0 && done < n)
            grow(each);
    } else {
        for (int i = 0; i < n; i++)
            if ((pids[i] = fork()) == 0)
                grow(each);
    }
    if (done != n) {
        fprintf(stderr, "storm: %s\n", shoal_error());
        return 1;
    }
    for (int i = 0; i < n; i++)
        if (pids[i] <= 0) {
            fprintf(stderr, "storm: child %d: %s\n", i, bproc_strerror(pids[i]));
            kill(-group, SIGKILL);
        }
    all = until(begin, group, n * (each + 1) + 1, 1, before + n * (each + 1));
    signal(SIGTERM, SIG_IGN);
    begin = now();
    kill(-group, SIGTERM);
    for (int i = 0; i < n; i++)
        waitpid(pids[i], &status, 0);
    gone = until(begin, group, 1, 0, before + n * (each + 1) / 20);
    printf("%.1f %.1f\n", all, gone);
    return 0;
}
