/* A group that becomes orphaned with a stopped member gets SIGHUP, then SIGCONT. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("member")) {
        block(SIGHUP);
        say(1, 'r');
        take(SIGHUP);
        check(kill(atoi(arg(1)), SIGUSR1) == 0);
        return 0;
    }
    /* "parent" leads a session of its own, so that its end orphans the member's group whoever we are */
    if (role("parent")) {
        int status;
        check(setsid() == getpid());
        pid_t member = fork_child();
        if (member == 0) {
            check(setpgid(0, 0) == 0);
            become("member", arg(1));
        }
        check(hear(0) == 'g' && kill(member, SIGSTOP) == 0);
        check(waitpid(member, &status, WUNTRACED) == member && stopped(status, SIGSTOP));
        return 56;
    }
    block(SIGUSR1);
    struct piped parent = spawn_piped("parent", text(getpid()));
    check(hear(parent.out) == 'r');
    say(parent.in, 'g');
    check(exited(wait_status(parent.pid), 56));
    take(SIGUSR1);
    return ok();
}
