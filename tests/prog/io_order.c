/* Who reads what a child has written sees what the child did before it wrote: a fork, a group, the end of a grandchild. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        for (int i = 0; i < 20; i++) {
            pid_t grandchild = fork_child();
            if (grandchild == 0)
                pause_forever();
            dprintf(1, "%d\n", grandchild);
            check(hear(0) == 'g' && setpgid(grandchild, grandchild) == 0);
            say(1, 'g');
            check(hear(0) == 'k' && kill(grandchild, SIGKILL) == 0 && killed(wait_status(grandchild), SIGKILL));
            say(1, 'k');
        }
        return 0;
    }
    struct piped child = spawn_piped("child");
    for (int i = 0; i < 20; i++) {
        pid_t grandchild = atoi(hear_line(child.out));
        check(kill(grandchild, 0) == 0 && kill(-grandchild, 0) == -1 && errno == ESRCH);
        say(child.in, 'g');
        check(hear(child.out) == 'g' && kill(-grandchild, 0) == 0);
        say(child.in, 'k');
        check(hear(child.out) == 'k' && kill(grandchild, 0) == -1 && errno == ESRCH);
    }
    check(exited(wait_status(child.pid), 0));
    return ok();
}
