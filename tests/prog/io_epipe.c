/* When the child has ended, or closed its input, its writer gets EPIPE and SIGPIPE. */
#include "prog.h"

static volatile sig_atomic_t pipes;
static void on_pipe(int sig)
{
    (void)sig;
    pipes++;
}

int main(int argc, char **argv)
{
    char buf[4096] = "";
    begin(argc, argv);
    if (role("child")) {
        check(close(0) == 0);
        say(1, 'c');
        pause_forever();
    }
    struct piped child = spawn_piped("child");
    check(signal(SIGPIPE, on_pipe) != SIG_ERR && hear(child.out) == 'c');
    while (write(child.in, buf, sizeof buf) > 0)
        ;
    check(errno == EPIPE && pipes == 1);
    check(waitpid(child.pid, NULL, WNOHANG) == 0 && kill(child.pid, SIGTERM) == 0);
    check(killed(wait_status(child.pid), SIGTERM));

    child = spawn_piped("child");
    check(hear(child.out) == 'c' && kill(child.pid, SIGKILL) == 0 && killed(wait_status(child.pid), SIGKILL));
    while (write(child.in, buf, sizeof buf) > 0)
        ;
    check(errno == EPIPE && pipes == 2);
    return ok();
}
