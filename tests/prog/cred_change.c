/* A child elsewhere that gives up root is seen to have done so: its new owner may signal it. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        check(setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0);
        say(1, 'r');
        pause_forever();
    }
    if (geteuid() != 0)
        return ok();
    struct piped child = spawn_piped("child");
    check(hear(child.out) == 'r');
    for (int i = 0; i < 2; i++) {
        uid_t uid = i ? 65534 : 65533;
        pid_t user = fork_child();
        if (user == 0) {
            check(setresuid(uid, uid, uid) == 0);
            int got = kill(child.pid, SIGTERM);
            check(i ? got == 0 : got == -1 && errno == EPERM);
            _exit(0);
        }
        check(exited(wait_status(user), 0));
    }
    check(killed(wait_status(child.pid), SIGTERM));
    return ok();
}
