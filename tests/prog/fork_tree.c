/* A tree of processes, 3 wide and 4 deep: each counts its own subtree by the exit codes of its children. */
#include "prog.h"

static int subtree(int depth)
{
    int sum = 1;
    pid_t me = getpid(), child[3];
    for (int i = 0; depth > 0 && i < 3; i++) {
        child[i] = fork_child();
        if (child[i] == 0) {
            check(getppid() == me);
            _exit(subtree(depth - 1));
        }
    }
    for (int i = 0; depth > 0 && i < 3; i++)
        sum += WEXITSTATUS(wait_status(child[i]));
    return sum;
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    check(subtree(4) == 1 + 3 + 9 + 27 + 81);
    return ok();
}
