/* Who is waited for just before its parent ends, while that has another child, is gone for everybody, and so is the other when it has ended. */
#include "prog.h"

enum { ROUNDS = 40, SHORT = 6 };

int main(int argc, char **argv)
{
    begin(argc, argv);
    for (int i = 0; i < ROUNDS; i++) {
        int held[2];
        check(pipe2(held, O_CLOEXEC) == 0);
        pid_t child = fork();
        check(child >= 0);
        if (child == 0) {
            close(held[1]);
            check(setpgid(0, 0) == 0);
            if (fork() == 0) {
                char byte;
                _exit((int)read(held[0], &byte, 1));
            }
            for (int j = 0; j < SHORT; j++) {
                pid_t pid = fork();
                if (pid == 0)
                    _exit(j);
                check(exited(wait_status(pid), j));
            }
            _exit(7);
        }
        close(held[0]);
        check(exited(wait_status(child), 7));
        close(held[1]);
        until(kill(-child, 0) < 0 && errno == ESRCH);
    }
    return ok();
}
