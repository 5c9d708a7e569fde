/* A background process of an orphaned group that reads the terminal gets EIO instead of SIGTTIN. */
#include "pty.h"

int main(int argc, char **argv)
{
    char name[64], c;
    begin(argc, argv);
    int master = open_pty(name), out[2];
    check(pipe2(out, O_CLOEXEC) == 0);
    pid_t leader = fork_leader(name);
    if (leader == 0) {
        pid_t middle = fork_child();
        if (middle == 0) {
            pid_t me = getpid(), orphan = fork_child();
            if (orphan == 0) {
                check(setpgid(0, 0) == 0);
                say(out[1], 'p');
                until(getppid() != me);
                check(read(0, &c, 1) == -1 && errno == EIO);
                say(out[1], 'e');
                _exit(0);
            }
            check(hear(out[0]) == 'p');
            _exit(67);
        }
        check(exited(wait_status(middle), 67) && hear(out[0]) == 'e');
        _exit(67);
    }
    check(exited(wait_status(leader), 67) && close(master) == 0);
    return ok();
}
