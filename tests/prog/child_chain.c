/* A chain of six, each waiting for the next, each elsewhere than its parent if the prefix says so. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    int depth = role("link") ? atoi(arg(1)) : 0;
    if (depth == 6)
        return 6;
    if (depth > 0)
        check(getppid() == atoi(arg(2)));
    pid_t next = spawn_child("link", text(depth + 1), text(getpid()));
    int status = wait_status(next);
    check(exited(status, 6));
    return depth > 0 ? 6 : ok();
}
