/* kill(-1) reaches all that the caller may signal, elsewhere too, but not itself and not others' processes. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("stay")) {
        say(1, 'r');
        pause_forever();
    }
    if (geteuid() != 0)
        return ok(); /* needs a uid that nobody else uses */
    struct piped other = spawn_piped("stay");
    check(hear(other.out) == 'r');
    pid_t user = fork_child();
    if (user == 0) {
        uid_t uid = 1000000 + (uid_t)getpid();
        check(setresgid(uid, uid, uid) == 0 && setresuid(uid, uid, uid) == 0);
        struct piped a = spawn_piped("stay"), b = spawn_piped("stay");
        check(hear(a.out) == 'r' && hear(b.out) == 'r');
        check(kill(-1, SIGTERM) == 0);
        check(killed(wait_status(a.pid), SIGTERM) && killed(wait_status(b.pid), SIGTERM));
        _exit(38);
    }
    check(exited(wait_status(user), 38));
    check(waitpid(other.pid, NULL, WNOHANG) == 0 && kill(other.pid, SIGKILL) == 0);
    check(killed(wait_status(other.pid), SIGKILL));
    return ok();
}
