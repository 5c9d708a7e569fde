/* A child forked by a thread is the process's child: any thread waits for it, unless it says __WNOTHREAD. */
#include "prog.h"

static void *forker(void *arg)
{
    pid_t child = fork_child();
    if (child == 0)
        _exit(17);
    *(pid_t *)arg = child;
    return NULL;
}

static void *no_child_of_mine(void *arg)
{
    check(waitpid(*(pid_t *)arg, NULL, __WNOTHREAD) == -1 && errno == ECHILD);
    return NULL;
}

int main(int argc, char **argv)
{
    pid_t child = 0;
    pthread_t thread;
    begin(argc, argv);
    check(pthread_create(&thread, NULL, forker, &child) == 0 && pthread_join(thread, NULL) == 0);
    check(stat_field(child, 1) == getpid());
    check(pthread_create(&thread, NULL, no_child_of_mine, &child) == 0 && pthread_join(thread, NULL) == 0);
    check(exited(wait_status(child), 17));
    return ok();
}
