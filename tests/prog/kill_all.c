/* kill(-1) reaches all that the caller may signal, elsewhere too, but not itself and not others' processes. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("stay"))
        return stay();
    if (geteuid() != 0)
        return ok(); /* needs a uid that nobody else uses */
    struct piped other = spawn_staying();
    pid_t user = fork_child();
    if (user == 0) {
        become_lone_user();
        struct piped a = spawn_staying(), b = spawn_staying();
        check(kill(-1, SIGTERM) == 0);
        check(killed(wait_status(a.pid), SIGTERM) && killed(wait_status(b.pid), SIGTERM));
        _exit(38);
    }
    check(exited(wait_status(user), 38));
    end_staying(other);
    return ok();
}
