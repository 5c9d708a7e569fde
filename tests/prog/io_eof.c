/* End of file travels both ways, each on its own: the child's input first, its output later, while it lives on. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        check(hear(0) == 'a' && hear(0) == -1);
        say(1, 'b');
        check(close(1) == 0);
        say(2, 'c');
        return pause_forever();
    }
    int err[2], saved = dup(2);
    check(pipe2(err, O_CLOEXEC) == 0 && fcntl(saved, F_SETFD, FD_CLOEXEC) == 0 && dup2(err[1], 2) == 2);
    struct piped child = spawn_piped("child");
    check(dup2(saved, 2) == 2 && close(err[1]) == 0);
    say(child.in, 'a');
    close(child.in);
    check(hear(child.out) == 'b' && hear(child.out) == -1 && hear(err[0]) == 'c');
    check(kill(child.pid, SIGTERM) == 0 && killed(wait_status(child.pid), SIGTERM));
    check(hear(err[0]) == -1);
    return ok();
}
