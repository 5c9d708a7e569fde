/* A user signals their own process elsewhere, sees the sender's uid there, and is told when it ends. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        block(SIGUSR1);
        say(1, 'r');
        siginfo_t info = take(SIGUSR1);
        check(info.si_uid == 65534 && info.si_pid == getppid());
        say(1, 'n');
        pause_forever();
    }
    if (geteuid() != 0)
        return ok();
    pid_t user = fork_child();
    if (user == 0) {
        check(setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0);
        block(SIGCHLD);
        struct piped child = spawn_piped("child");
        check(hear(child.out) == 'r' && kill(child.pid, SIGUSR1) == 0);
        check(hear(child.out) == 'n' && kill(child.pid, SIGTERM) == 0);
        siginfo_t info = take(SIGCHLD);
        check(info.si_pid == child.pid && info.si_uid == 65534 && info.si_status == SIGTERM);
        check(killed(wait_status(child.pid), SIGTERM));
        _exit(74);
    }
    check(exited(wait_status(user), 74));
    return ok();
}
