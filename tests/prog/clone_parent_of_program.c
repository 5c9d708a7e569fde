/* A child that is its maker's sibling lives and is heard, also where its parent is none of the machine's own. */
#include "prog.h"
#include <sched.h>
#include <sys/syscall.h>

int main(int argc, char **argv)
{
    begin(argc, argv);
    int out[2];
    check(pipe(out) == 0);
    pid_t parent = getppid();
    pid_t child = syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
    check(child >= 0);
    if (child == 0) {
        check(getppid() == parent);
        say(out[1], 'x');
        _exit(0);
    }
    check(waitpid(child, NULL, 0) == -1 && errno == ECHILD);
    check(hear(out[0]) == 'x');
    return ok();
}
