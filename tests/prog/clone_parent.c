/* CLONE_PARENT makes a sibling: its parent is the caller's parent, which waits for it. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    pid_t me = getpid();
    int fds[2];
    check(pipe(fds) == 0);
    pid_t child = fork_child();
    if (child == 0) {
        pid_t sibling = (pid_t)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
        check(sibling >= 0);
        if (sibling == 0)
            _exit(getppid() == me ? 6 : 1);
        check(write(fds[1], &sibling, sizeof sibling) == sizeof sibling);
        check(waitpid(sibling, NULL, 0) == -1 && errno == ECHILD);
        _exit(4);
    }
    pid_t sibling;
    check(read(fds[0], &sibling, sizeof sibling) == sizeof sibling);
    check(exited(wait_status(child), 4));
    check(exited(wait_status(sibling), 6));
    return ok();
}
