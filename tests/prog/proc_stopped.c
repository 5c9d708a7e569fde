/* /proc shows that a grandchild was stopped and continued by its own parent, though that has not waited. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        pid_t pid = fork_child();
        if (pid == 0)
            pause_forever();
        dprintf(1, "%d\n", pid);
        for (int i = 0; i < 3; i++) {
            check(hear(0) == 's' && kill(pid, SIGSTOP) == 0);
            check(hear(0) == 'c' && kill(pid, SIGCONT) == 0);
        }
        check(hear(0) == 'k' && kill(pid, SIGKILL) == 0);
        check(killed(wait_status(pid), SIGKILL));
        return 33;
    }
    struct piped child = spawn_piped("child");
    pid_t pid = atoi(hear_line(child.out));
    until(state_of(pid) == 'S');
    for (int i = 0; i < 3; i++) {
        say(child.in, 's');
        until(state_of(pid) == 'T');
        say(child.in, 'c');
        until(state_of(pid) == 'S');
    }
    say(child.in, 'k');
    until(state_of(pid) == -1);
    check(exited(wait_status(child.pid), 33));
    return ok();
}
