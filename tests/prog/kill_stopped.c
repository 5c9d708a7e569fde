/* SIGKILL ends a stopped child; SIGTERM to a stopped child waits for SIGCONT. */
#include "prog.h"

static struct piped stopped_child(void)
{
    int status;
    struct piped child = spawn_piped("child");
    check(hear(child.out) == 'r' && kill(child.pid, SIGSTOP) == 0);
    check(waitpid(child.pid, &status, WUNTRACED) == child.pid && stopped(status, SIGSTOP));
    return child;
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        say(1, 'r');
        pause_forever();
    }
    struct piped child = stopped_child();
    check(kill(child.pid, SIGKILL) == 0 && killed(wait_status(child.pid), SIGKILL));

    child = stopped_child();
    check(kill(child.pid, SIGTERM) == 0);
    check(waitpid(child.pid, NULL, WNOHANG) == 0 && state_of(child.pid) == 'T');
    check(kill(child.pid, SIGCONT) == 0 && killed(wait_status(child.pid), SIGTERM));
    return ok();
}
