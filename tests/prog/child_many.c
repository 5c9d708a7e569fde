/* 20 children elsewhere at once: each has its own PID, each code comes from the right one. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child"))
        return getpid() == atoi(hear_line(0)) ? atoi(arg(1)) : 1;
    struct piped child[20];
    for (int i = 0; i < 20; i++)
        child[i] = spawn_piped("child", text(100 + i));
    for (int i = 0; i < 20; i++) {
        dprintf(child[i].in, "%d\n", child[i].pid);
        close(child[i].in);
    }
    int seen[20] = {0}, status;
    for (int n = 0; n < 20; n++) {
        pid_t pid = waitpid(-1, &status, 0);
        for (int i = 0; i < 20; i++)
            if (child[i].pid == pid) {
                check(!seen[i]);
                seen[i] = 1;
                check(exited(status, 100 + i));
            }
    }
    check(waitpid(-1, NULL, 0) == -1 && errno == ECHILD);
    return ok();
}
