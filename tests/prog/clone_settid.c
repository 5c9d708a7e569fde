/* CLONE_PARENT_SETTID and CLONE_CHILD_SETTID write the PID that getpid gives. */
#include "prog.h"

static pid_t in_parent, in_child;

int main(int argc, char **argv)
{
    begin(argc, argv);
    pid_t child = (pid_t)syscall(SYS_clone, CLONE_PARENT_SETTID | CLONE_CHILD_SETTID | SIGCHLD, 0, &in_parent,
                                 &in_child, 0);
    check(child >= 0);
    if (child == 0)
        _exit(in_child == (pid_t)syscall(SYS_getpid) && in_child == (pid_t)syscall(SYS_gettid) ? 0 : 1);
    check(in_parent == child && in_child == 0);
    check(exited(wait_status(child), 0));
    return ok();
}
