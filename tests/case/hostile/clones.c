// Children of which no SIGCHLD tells (clone(2)): one ends before SIGUSR1, the others when it has come; each is waited for.
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 4, STACK = 65536 };

static int child(void *waits) {
    while (waits)
        pause();
    return 3;
}

int main(void) {
    sigset_t go;
    sigemptyset(&go);
    sigaddset(&go, SIGUSR1);
    sigprocmask(SIG_BLOCK, &go, NULL);
    signal(SIGUSR2, SIG_IGN);
    pid_t children[CHILDREN];
    for (int at = 0; at < CHILDREN; at++) {
        char *stack = malloc(STACK);
        children[at] = clone(child, stack + STACK, at % 2 ? SIGUSR2 : 0, at ? &go : NULL);
        if (children[at] < 0)
            return 1;
    }
    puts("up");
    fflush(stdout);
    int sig;
    sigwait(&go, &sig);
    for (int at = 0; at < CHILDREN; at++) {
        int status;
        if (at)
            kill(children[at], SIGKILL);
        if (waitpid(children[at], &status, __WALL) != children[at] || status != (at ? SIGKILL : 3 << 8))
            return 2;
    }
    return 42;
}
