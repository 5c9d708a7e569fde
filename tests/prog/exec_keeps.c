/* exec keeps PID, parent, group, session, nice value, umask, directory and limits; the name becomes the new file's. */
#include "prog.h"

int main(int argc, char **argv)
{
    char comm[32] = "", cwd[PATH_MAX];
    begin(argc, argv);
    if (role("after")) {
        check(getpid() == atoi(arg(1)) && getppid() == atoi(arg(2)) && getpgrp() == getpid());
        check(getsid(0) == atoi(arg(3)) && getpriority(PRIO_PROCESS, 0) == atoi(arg(4)));
        check(umask(0) == 0137 && getcwd(cwd, sizeof cwd) && strcmp(cwd, "/usr") == 0);
        check(prctl(PR_GET_NAME, comm) == 0 && strcmp(comm, "exe") == 0);
        return 33;
    }
    pid_t me = getpid(), child = fork_child();
    if (child == 0) {
        check(setpgid(0, 0) == 0 && chdir("/usr") == 0);
        check(prctl(PR_SET_NAME, "before") == 0);
        umask(0137);
        execl("/proc/self/exe", "x", "after", text(getpid()), text(me), text(getsid(0)),
              text(getpriority(PRIO_PROCESS, 0)), NULL);
        check(!"exec");
    }
    check(exited(wait_status(child), 33));
    return ok();
}
