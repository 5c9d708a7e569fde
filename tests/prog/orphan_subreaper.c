/* A subreaper gets the orphans of its descendants: it is their parent, told of their end, and reaps them. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("orphan"))
        return become_orphan(atoi(arg(1)), SIGUSR1);
    if (role("child")) {
        block(SIGUSR1);
        dprintf(1, "%d\n", spawn_child("orphan", arg(1)));
        take(SIGUSR1); /* none of our streams is left in its hands, so nothing is relayed after our end */
        return 29;
    }
    block(SIGUSR1);
    check(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    struct piped child = spawn_piped("child", text(getpid()));
    pid_t orphan = atoi(hear_line(child.out));
    check(exited(wait_status(child.pid), 29));
    check(take(SIGUSR1).si_pid == orphan && stat_field(orphan, 1) == getpid());
    check(kill(orphan, SIGTERM) == 0 && killed(wait_status(orphan), SIGTERM));
    check(wait(NULL) == -1 && errno == ECHILD);
    return ok();
}
