/* A terminal of one's own, and jobs on it, for the programs about terminals. */
#ifndef PTY_H
#define PTY_H
#include "prog.h"
#include <sys/ioctl.h>
#include <termios.h>

/* The master side of a new terminal; its name goes to `name`. */
MAYBE int open_pty(char name[64])
{
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    check(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0 && ptsname_r(master, name, 64) == 0);
    return master;
}

/* Fork the leader of a new session whose controlling terminal, on descriptor 0, is `name`. */
MAYBE pid_t fork_leader(const char *name)
{
    pid_t pid = fork_child();
    if (pid == 0) {
        prog_role = "leader";
        check(setsid() == getpid());
        int tty = open(name, O_RDWR);
        check(tty >= 0 && dup2(tty, 0) == 0 && tcgetpgrp(0) == getpgrp());
        if (tty > 2)
            close(tty);
        check(signal(SIGTTOU, SIG_IGN) != SIG_ERR); /* as a shell has it */
    }
    return pid;
}

/* A job: a child in a group of its own with these descriptors as 0 and 1; it may live elsewhere. */
MAYBE pid_t job(const char *job_role, int in, int out)
{
    pid_t pid = fork_child();
    if (pid == 0) {
        check(signal(SIGTTOU, SIG_DFL) != SIG_ERR && setpgid(0, 0) == 0);
        check(dup2(in, 0) == 0 && dup2(out, 1) == 1);
        become(job_role);
    }
    setpgid(pid, pid);
    return pid;
}

MAYBE void foreground(pid_t group) { check(tcsetpgrp(0, group) == 0 && tcgetpgrp(0) == group); }
#endif
