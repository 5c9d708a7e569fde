/* A child that is stopped at any point of its start stops, and goes on when it is continued. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    check(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    if (role("child")) {
        int sig;
        check(sigwait(&set, &sig) == 0);
        return 7;
    }
    for (int i = 0; i < 40; i++) {
        int sig = i % 2 ? SIGTSTP : SIGSTOP;
        pid_t child = fork_child();
        if (child == 0) {
            check(setpgid(0, 0) == 0);
            become("child");
        }
        setpgid(child, child);
        usleep((useconds_t)(i * 200));
        check(kill(child, sig) == 0);
        int status;
        check(waitpid(child, &status, WUNTRACED) == child);
        check(stopped(status, sig));
        usleep(20000); /* whoever looks after those that do not answer has looked */
        check(kill(child, SIGCONT) == 0 && kill(child, SIGUSR1) == 0);
        check(exited(wait_status(child), 7));
    }
    return ok();
}
