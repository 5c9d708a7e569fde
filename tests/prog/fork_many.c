/* 300 children, 30 at a time, every one waited for once, no PID given twice among the living. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    for (int round = 0; round < 10; round++) {
        pid_t child[30];
        for (int i = 0; i < 30; i++) {
            child[i] = fork_child();
            if (child[i] == 0)
                _exit(i);
            for (int j = 0; j < i; j++)
                check(child[j] != child[i]);
        }
        for (int i = 29; i >= 0; i--)
            check(exited(wait_status(child[i]), i));
        check(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
    }
    return ok();
}
