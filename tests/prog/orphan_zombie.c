/* A zombie whose parent ends without waiting for it goes to the subreaper, with its status. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("zombie"))
        return 32;
    if (role("child")) {
        pid_t zombie = spawn_child("zombie");
        until(state_of(zombie) == 'Z');
        dprintf(1, "%d\n", zombie);
        return 31;
    }
    check(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    struct piped child = spawn_piped("child");
    pid_t zombie = atoi(hear_line(child.out));
    check(exited(wait_status(child.pid), 31));
    check(exited(wait_status(zombie), 32));
    check(wait(NULL) == -1 && errno == ECHILD);
    return ok();
}
