/* tcsetpgrp and tcgetpgrp of a session leader; what they refuse. */
#include "pty.h"

int main(int argc, char **argv)
{
    char name[64];
    begin(argc, argv);
    if (role("job"))
        return hear(0) == -1 ? 0 : 1;
    int master = open_pty(name);
    pid_t leader = fork_leader(name);
    if (leader == 0) {
        int in[2];
        check(pipe2(in, O_CLOEXEC) == 0 && isatty(0) && tcgetsid(0) == getpid());
        pid_t child = job("job", in[0], 1);
        foreground(child);
        foreground(getpgrp());
        check(tcsetpgrp(0, 4194303) == -1 && errno == ESRCH);
        check(tcsetpgrp(0, getppid()) == -1 && (errno == EPERM || errno == ESRCH));
        check(tcsetpgrp(in[0], child) == -1 && errno == ENOTTY);
        close(in[0]);
        close(in[1]);
        check(exited(wait_status(child), 0));
        _exit(60);
    }
    check(exited(wait_status(leader), 60) && close(master) == 0);
    return ok();
}
