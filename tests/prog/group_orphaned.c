/* A group that becomes orphaned with a stopped member gets SIGHUP, then SIGCONT. */
#include "prog.h"

static void on_hup(int sig)
{
    (void)sig;
    say(1, 'h');
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("member")) {
        check(signal(SIGHUP, on_hup) != SIG_ERR);
        say(1, 'r');
        return hear(0) == -1 ? 0 : 1;
    }
    /* "parent" leads a session of its own, so that its end orphans the member's group whoever we are */
    if (role("parent")) {
        int status;
        check(setsid() == getpid());
        pid_t member = fork_child();
        if (member == 0) {
            check(setpgid(0, 0) == 0);
            become("member");
        }
        check(hear(0) == 'g' && kill(member, SIGSTOP) == 0);
        check(waitpid(member, &status, WUNTRACED) == member && stopped(status, SIGSTOP));
        return 56;
    }
    struct piped parent = spawn_piped("parent");
    check(hear(parent.out) == 'r');
    say(parent.in, 'g');
    check(exited(wait_status(parent.pid), 56));
    check(hear(parent.out) == 'h');
    close(parent.in);
    check(hear(parent.out) == -1);
    return ok();
}
