/* A child elsewhere signals its parent and its sibling: both get it, with the sender's PID and uid. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("sibling")) {
        block(SIGUSR2);
        say(1, 'r');
        siginfo_t info = take(SIGUSR2);
        dprintf(1, "%d\n", info.si_pid);
        return info.si_uid == getuid() && info.si_code == SI_USER ? 0 : 1;
    }
    if (role("child")) {
        check(kill(getppid(), SIGUSR1) == 0);
        check(kill(atoi(arg(1)), SIGUSR2) == 0);
        return hear(0) == -1 ? 40 : 1;
    }
    block(SIGUSR1);
    struct piped sibling = spawn_piped("sibling");
    check(hear(sibling.out) == 'r');
    struct piped child = spawn_piped("child", text(sibling.pid));
    siginfo_t info = take(SIGUSR1);
    check(info.si_pid == child.pid && info.si_uid == getuid() && info.si_code == SI_USER);
    check(atoi(hear_line(sibling.out)) == child.pid);
    close(child.in);
    check(exited(wait_status(sibling.pid), 0) && exited(wait_status(child.pid), 40));
    return ok();
}
