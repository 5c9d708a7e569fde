/* A child elsewhere that writes to nobody dies of SIGPIPE, or gets EPIPE if it ignores that. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        check(signal(SIGPIPE, *arg(1) == 'i' ? SIG_IGN : SIG_DFL) != SIG_ERR);
        say(1, 'r');
        char buf[4096] = "";
        for (;;)
            if (write(1, buf, sizeof buf) == -1)
                return errno == EPIPE ? 54 : 1;
    }
    struct piped child = spawn_piped("child", "d");
    check(hear(child.out) == 'r' && close(child.out) == 0);
    check(killed(wait_status(child.pid), SIGPIPE));
    child = spawn_piped("child", "i");
    check(hear(child.out) == 'r' && close(child.out) == 0);
    check(exited(wait_status(child.pid), 54));
    return ok();
}
