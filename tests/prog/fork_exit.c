/* fork gives a child with its own PID; its exit code reaches waitpid. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    pid_t me = getpid(), child = fork_child();
    if (child == 0) {
        check(getpid() != me && getppid() == me);
        _exit(7);
    }
    check(child != me);
    check(exited(wait_status(child), 7));
    return ok();
}
