/* Threads: each has a TID of its own, by which the kernel knows it as one of this process, and all have the one PID. */
#include "prog.h"

static pid_t tid[64];
static pthread_barrier_t all;

static void *body(void *arg)
{
    tid[(intptr_t)arg] = gettid();
    pthread_barrier_wait(&all); /* all live at once */
    pthread_barrier_wait(&all);
    return (void *)(intptr_t)getpid();
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    pthread_t thread[64];
    check(pthread_barrier_init(&all, NULL, 65) == 0);
    for (intptr_t i = 0; i < 64; i++)
        check(pthread_create(&thread[i], NULL, body, (void *)i) == 0);
    pthread_barrier_wait(&all);
    for (int i = 0; i < 64; i++) {
        check(syscall(SYS_tgkill, getpid(), tid[i], 0) == 0 && getpgid(tid[i]) == getpgrp());
        for (int j = 0; j < i; j++)
            check(tid[i] != tid[j]);
    }
    pthread_barrier_wait(&all);
    for (int i = 0; i < 64; i++) {
        void *pid;
        check(pthread_join(thread[i], &pid) == 0 && (pid_t)(intptr_t)pid == getpid());
        check(tid[i] > 0 && tid[i] != getpid());
    }
    check(gettid() == getpid());
    check(waitpid(-1, NULL, 0) == -1 && errno == ECHILD);
    return ok();
}
