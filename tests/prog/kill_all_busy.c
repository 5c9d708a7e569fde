/* kill(-1) right after the ids have changed, by a process that a busy machine hardly lets run: the new ids count. */
#include "prog.h"

enum { LOOPS = 8 }; /* at most */

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("stay"))
        return stay();
    if (geteuid() != 0)
        return ok(); /* needs a uid that nobody else uses */
    struct piped other = spawn_staying();
    pid_t loops[LOOPS];
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    for (long n = 0; n < count && n < LOOPS; n++)
        for (loops[n] = fork_child(); loops[n] == 0;)
            ;
    pid_t user = fork_child();
    if (user == 0) {
        check(nice(19) == 19);
        become_lone_user();
        kill(-1, SIGTERM); /* nobody else is this user's */
        _exit(38);
    }
    check(exited(wait_status(user), 38));
    for (long n = 0; n < count && n < LOOPS; n++)
        check(kill(loops[n], SIGKILL) == 0 && killed(wait_status(loops[n]), SIGKILL));
    end_staying(other);
    return ok();
}
