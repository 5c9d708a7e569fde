/* A child elsewhere forks children of its own: natively its children, and within the one numbering. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        for (int i = 0; i < 10; i++) {
            pid_t me = getpid(), own = fork_child();
            if (own == 0)
                _exit(getppid() == me ? i : 99);
            dprintf(1, "%d\n", own);
            check(exited(wait_status(own), i));
        }
        return 0;
    }
    struct piped child = spawn_piped("child");
    int count = 0;
    for (char *line = hear_line(child.out); *line; line = hear_line(child.out), count++)
        check(atoi(line) > 1 && atoi(line) != child.pid && atoi(line) != getpid());
    check(count == 10 && exited(wait_status(child.pid), 0));
    return ok();
}
