/* kill(-1) by one who may signal nobody else succeeds, as long as there is somebody else (linux: kill_something_info). */
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
        check(kill(-1, 0) == 0 && kill(-1, SIGTERM) == 0);
        check(kill(-1, NSIG) == -1 && errno == EINVAL);
        _exit(38);
    }
    check(exited(wait_status(user), 38));
    end_staying(other);
    return ok();
}
