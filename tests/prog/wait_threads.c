/* Several threads wait at once for any child: each child goes to exactly one of them. */
#include "prog.h"

static void *waiter(void *arg)
{
    (void)arg;
    int status;
    intptr_t pid = waitpid(-1, &status, 0);
    check(pid > 0 && exited(status, 20));
    return (void *)pid;
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child"))
        return hear(0) == -1 ? 20 : 1;
    struct piped child[6];
    pthread_t thread[6];
    for (int i = 0; i < 6; i++)
        child[i] = spawn_piped("child");
    for (int i = 0; i < 6; i++)
        check(pthread_create(&thread[i], NULL, waiter, NULL) == 0);
    for (int i = 0; i < 6; i++)
        close(child[i].in);
    intptr_t sum = 0, got;
    for (int i = 0; i < 6; i++) {
        check(pthread_join(thread[i], (void **)&got) == 0);
        sum += got - child[i].pid;
    }
    check(sum == 0 && waitpid(-1, NULL, 0) == -1 && errno == ECHILD);
    return ok();
}
