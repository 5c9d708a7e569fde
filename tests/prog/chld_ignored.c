/* With SIGCHLD ignored, or SA_NOCLDWAIT, children leave no zombies and wait ends with ECHILD when the last has gone. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        say(1, 'r');
        return hear(0) == -1 ? 26 : 1;
    }
    for (int i = 0; i < 2; i++) {
        struct sigaction act = {.sa_handler = i ? SIG_DFL : SIG_IGN, .sa_flags = i ? SA_NOCLDWAIT : 0};
        check(sigaction(SIGCHLD, &act, NULL) == 0);
        struct piped a = spawn_piped("child"), b = spawn_piped("child");
        check(hear(a.out) == 'r' && hear(b.out) == 'r');
        close(a.in);
        until(kill(a.pid, 0) == -1 && errno == ESRCH);
        check(kill(b.pid, 0) == 0);
        close(b.in);
        check(waitpid(-1, NULL, 0) == -1 && errno == ECHILD);
        /* linux: exit_notify makes it EXIT_DEAD and wakes the parent before release_task gives the number back. */
        until(kill(b.pid, 0) == -1 && errno == ESRCH);
    }
    return ok();
}
