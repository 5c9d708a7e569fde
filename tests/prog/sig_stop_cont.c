/* SIGSTOP and SIGCONT, back to back and many times: the child ends up running and loses no work. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        say(1, 'r');
        return hear(0) == 'g' ? 46 : 1;
    }
    struct piped child = spawn_piped("child");
    check(hear(child.out) == 'r');
    for (int i = 0; i < 50; i++)
        check(kill(child.pid, SIGSTOP) == 0 && kill(child.pid, SIGCONT) == 0);
    until(state_of(child.pid) == 'S');
    say(child.in, 'g');
    check(exited(wait_status(child.pid), 46));
    return ok();
}
