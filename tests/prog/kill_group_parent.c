/* Who waits for a child of its own group has had the group's signal when the child has ended by it. */
#include "prog.h"

enum { ROUNDS = 40 };

static volatile sig_atomic_t had;

static void note(int sig)
{
    had = sig;
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        int status;
        check(setpgid(0, 0) == 0);
        pid_t pid = fork_child();
        if (pid == 0)
            for (;;)
                pause();
        check(signal(SIGINT, note) != SIG_ERR);
        say(1, 'r');
        while (waitpid(pid, &status, 0) == -1)
            check(errno == EINTR);
        check(had == SIGINT && WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
        return 36;
    }
    for (int i = 0; i < ROUNDS; i++) {
        struct piped child = spawn_piped("child");
        check(hear(child.out) == 'r' && kill(-child.pid, SIGINT) == 0);
        check(exited(wait_status(child.pid), 36));
        close(child.in);
        close(child.out);
    }
    return ok();
}
