/* A handler of SIGCONT runs in a child that was stopped; a blocked SIGCONT continues it all the same. */
#include "prog.h"

static void on_cont(int sig)
{
    (void)sig;
    say(1, 'c');
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        check(signal(SIGCONT, on_cont) != SIG_ERR);
        if (strcmp(arg(1), "blocked") == 0)
            block(SIGCONT);
        say(1, 'r');
        return hear(0) == 'g' ? 48 : 1;
    }
    for (int i = 0; i < 2; i++) {
        int status;
        struct piped child = spawn_piped("child", i ? "blocked" : "open");
        check(hear(child.out) == 'r' && kill(child.pid, SIGSTOP) == 0);
        check(waitpid(child.pid, &status, WUNTRACED) == child.pid && stopped(status, SIGSTOP));
        check(kill(child.pid, SIGCONT) == 0);
        check(waitpid(child.pid, &status, WCONTINUED) == child.pid && WIFCONTINUED(status));
        check(i || hear(child.out) == 'c');
        say(child.in, 'g');
        check(exited(wait_status(child.pid), 48));
    }
    return ok();
}
