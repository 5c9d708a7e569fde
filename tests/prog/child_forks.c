/* Children elsewhere fork children of their own: natively theirs, and all that live at a time have numbers of their own. */
#include "prog.h"

enum { PARENTS = 4, EACH = 12 };

static int forks(void)
{
    pid_t me = getpid(), own[EACH];
    int hold[2];
    check(pipe(hold) == 0);
    for (int i = 0; i < EACH; i++) {
        own[i] = fork_child();
        if (own[i] == 0) {
            close(hold[1]);
            check(hear(hold[0]) == -1);
            _exit(getppid() == me ? i : 99);
        }
        dprintf(1, "%d\n", own[i]);
    }
    check(hear(0) == -1);
    close(hold[1]);
    for (int i = 0; i < EACH; i++)
        check(exited(wait_status(own[i]), i));
    return 0;
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child"))
        return forks();
    struct piped child[PARENTS];
    pid_t seen[PARENTS * (EACH + 1) + 1] = {getpid()};
    int count = 1;
    for (int i = 0; i < PARENTS; i++) {
        child[i] = spawn_piped("child");
        seen[count++] = child[i].pid;
    }
    for (int i = 0; i < PARENTS; i++)
        for (int j = 0; j < EACH; j++)
            check((seen[count++] = atoi(hear_line(child[i].out))) > 1);
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++)
            check(seen[i] != seen[j]);
    for (int i = 0; i < PARENTS; i++)
        close(child[i].in);
    for (int i = 0; i < PARENTS; i++)
        check(exited(wait_status(child[i].pid), 0));
    return ok();
}
