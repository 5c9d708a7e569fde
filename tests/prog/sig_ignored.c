/* A signal that the child ignores does nothing to it, also when ignored by inheritance. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        check(signal(SIGINT, SIG_IGN) != SIG_ERR);
        say(1, 'r');
        return hear(0) == 'g' ? 44 : 1;
    }
    check(signal(SIGTERM, SIG_IGN) != SIG_ERR);
    struct piped child = spawn_piped("child");
    check(hear(child.out) == 'r');
    for (int i = 0; i < 5; i++)
        check(kill(child.pid, SIGTERM) == 0 && kill(child.pid, SIGINT) == 0 && kill(child.pid, SIGWINCH) == 0);
    check(waitpid(child.pid, NULL, WNOHANG) == 0);
    say(child.in, 'g');
    check(exited(wait_status(child.pid), 44));
    return ok();
}
