/* Threads: each has a TID of its own, all have the one PID. */
#include "prog.h"

static pid_t tid[64];

static void *body(void *arg)
{
    tid[(intptr_t)arg] = gettid();
    return (void *)(intptr_t)getpid();
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    pthread_t thread[64];
    for (intptr_t i = 0; i < 64; i++)
        check(pthread_create(&thread[i], NULL, body, (void *)i) == 0);
    for (int i = 0; i < 64; i++) {
        void *pid;
        check(pthread_join(thread[i], &pid) == 0 && (pid_t)(intptr_t)pid == getpid());
        check(tid[i] > 0 && tid[i] != getpid());
    }
    check(gettid() == getpid());
    check(waitpid(-1, NULL, 0) == -1 && errno == ECHILD);
    return ok();
}
