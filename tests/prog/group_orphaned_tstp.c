/* In an orphaned group SIGTSTP, SIGTTIN and SIGTTOU do not stop; SIGSTOP does. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        check(setsid() == getpid()); /* its parent is in another session: the group is orphaned */
        say(1, 'r');
        for (int byte = hear(0); byte != -1; byte = hear(0))
            say(1, (char)byte);
        return 58;
    }
    static const int sigs[] = {SIGTSTP, SIGTTIN, SIGTTOU};
    struct piped child = spawn_piped("child");
    int status;
    check(hear(child.out) == 'r');
    for (int i = 0; i < 3; i++) {
        check(kill(child.pid, sigs[i]) == 0);
        say(child.in, 'x');
        check(hear(child.out) == 'x');
        check(waitpid(child.pid, &status, WUNTRACED | WNOHANG) == 0);
    }
    check(kill(child.pid, SIGSTOP) == 0);
    check(waitpid(child.pid, &status, WUNTRACED) == child.pid && stopped(status, SIGSTOP));
    check(kill(child.pid, SIGCONT) == 0);
    close(child.in);
    check(exited(wait_status(child.pid), 58));
    return ok();
}
