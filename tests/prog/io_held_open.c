/* The output of a child ends only when the last process that has it open ends. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        pid_t child = getpid();
        if (fork_child() == 0) {
            until(getppid() != child);
            say(1, 'o');
            check(hear(0) == 'g');
            say(1, 'p');
            _exit(0);
        }
        return 82;
    }
    struct piped child = spawn_piped("child");
    check(hear(child.out) == 'o');
    say(child.in, 'g');
    check(hear(child.out) == 'p');
    check(hear(child.out) == -1);
    check(exited(wait_status(child.pid), 82));
    return ok();
}
