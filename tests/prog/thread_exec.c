/* exec by a thread that is not the leader: the PID stays, the other threads are gone. */
#include "prog.h"

static void *other(void *arg)
{
    (void)arg;
    return (void *)(intptr_t)pause_forever();
}

static void *body(void *arg)
{
    check(gettid() != getpid());
    execl("/proc/self/exe", "thread_exec", "after", arg, NULL);
    check(!"exec");
    return NULL;
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("after"))
        return getpid() == atoi(arg(1)) && gettid() == getpid() ? 19 : 1;
    if (role("child")) {
        pthread_t thread;
        for (int i = 0; i < 4; i++)
            check(pthread_create(&thread, NULL, other, NULL) == 0);
        check(pthread_create(&thread, NULL, body, (void *)text(getpid())) == 0);
        pause_forever();
    }
    for (int i = 0; i < 5; i++) {
        pid_t child = spawn_child("child");
        check(exited(wait_status(child), 19));
    }
    return ok();
}
