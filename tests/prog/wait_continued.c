/* A child that stops itself and is continued 10 times: both are told each time, in order. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        for (int i = 0; i < 10; i++) {
            raise(SIGSTOP);
            check(hear(0) == 'g');
        }
        return 15;
    }
    struct piped child = spawn_piped("child");
    int status;
    for (int i = 0; i < 10; i++) {
        check(waitpid(child.pid, &status, WUNTRACED | WCONTINUED) == child.pid && stopped(status, SIGSTOP));
        check(kill(child.pid, SIGCONT) == 0);
        check(waitpid(child.pid, &status, WUNTRACED | WCONTINUED) == child.pid && WIFCONTINUED(status));
        say(child.in, 'g');
    }
    check(exited(wait_status(child.pid), 15));
    return ok();
}
