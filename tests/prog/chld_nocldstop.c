/* SA_NOCLDSTOP: no SIGCHLD for stop and continue, while wait still tells them; the exit brings the signal. */
#include "prog.h"

static volatile sig_atomic_t count;
static void on_child(int sig)
{
    (void)sig;
    count++;
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        say(1, 'r');
        pause_forever();
    }
    struct sigaction act = {.sa_handler = on_child, .sa_flags = SA_NOCLDSTOP | SA_RESTART};
    check(sigaction(SIGCHLD, &act, NULL) == 0);
    struct piped child = spawn_piped("child");
    int status;
    check(hear(child.out) == 'r' && kill(child.pid, SIGSTOP) == 0);
    check(waitpid(child.pid, &status, WUNTRACED) == child.pid && stopped(status, SIGSTOP));
    check(kill(child.pid, SIGCONT) == 0);
    check(waitpid(child.pid, &status, WCONTINUED) == child.pid && WIFCONTINUED(status));
    check(count == 0);
    check(kill(child.pid, SIGTERM) == 0 && killed(wait_status(child.pid), SIGTERM));
    until(count == 1);
    return ok();
}
