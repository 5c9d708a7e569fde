/* exit by one thread, and a signal that kills, end all threads. */
#include "prog.h"

static void *body(void *arg)
{
    if (*(const char *)arg == 'e')
        exit(21);
    if (*(const char *)arg == 'k')
        raise(SIGTERM);
    return (void *)(intptr_t)pause_forever();
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        pthread_t thread;
        for (int i = 0; i < 8; i++)
            check(pthread_create(&thread, NULL, body, "p") == 0);
        check(pthread_create(&thread, NULL, body, (void *)arg(1)) == 0);
        pause_forever();
    }
    pid_t child = spawn_child("child", "e");
    check(exited(wait_status(child), 21));
    child = spawn_child("child", "k");
    check(killed(wait_status(child), SIGTERM));
    return ok();
}
