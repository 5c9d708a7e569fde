/* Signal 0 asks whether a process is there, without reaching it. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child"))
        return hear(0) == -1 ? 34 : 1;
    struct piped child = spawn_piped("child");
    for (int i = 0; i < 10; i++)
        check(kill(child.pid, 0) == 0 && kill(0, 0) == 0 && kill(-getpgrp(), 0) == 0);
    close(child.in);
    check(exited(wait_status(child.pid), 34));
    check(kill(child.pid, 0) == -1 && errno == ESRCH);
    return ok();
}
