/* The leader exits first: the process lives on, its parent is told only when the last thread has ended. */
#include "prog.h"

static void *last(void *arg)
{
    (void)arg;
    until(state_of(getpid()) == 'Z');
    say(1, 'z');
    check(hear(0) == 'g');
    exit(13);
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        pthread_t thread;
        check(pthread_create(&thread, NULL, last, NULL) == 0);
        pthread_exit(NULL);
    }
    struct piped child = spawn_piped("child");
    check(hear(child.out) == 'z');
    check(waitpid(child.pid, NULL, WNOHANG) == 0);
    check(kill(child.pid, 0) == 0);
    say(child.in, 'g');
    check(exited(wait_status(child.pid), 13));
    check(kill(child.pid, 0) == -1 && errno == ESRCH);
    return ok();
}
