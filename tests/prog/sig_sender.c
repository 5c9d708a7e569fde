/* The child sees who sent: PID, uid and the code of kill. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        block(SIGUSR1);
        block(SIGTERM);
        say(1, 'r');
        siginfo_t info = take(SIGUSR1);
        check(info.si_pid == getppid() && info.si_uid == getuid() && info.si_code == SI_USER);
        say(1, 'n');
        info = take(SIGTERM);
        check(info.si_pid == atoi(hear_line(0)) && info.si_code == SI_USER);
        return 0;
    }
    struct piped child = spawn_piped("child");
    check(hear(child.out) == 'r' && kill(child.pid, SIGUSR1) == 0);
    check(hear(child.out) == 'n');
    pid_t sender = fork_child();
    if (sender == 0) {
        check(kill(child.pid, SIGTERM) == 0);
        _exit(0);
    }
    dprintf(child.in, "%d\n", sender);
    check(exited(wait_status(child.pid), 0) && exited(wait_status(sender), 0));
    return ok();
}
