/* Standard output and standard error stay apart. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        for (int i = 0; i < 100; i++)
            dprintf(1 + i % 2, "%d\n", i);
        return 0;
    }
    int err[2], saved = dup(2);
    check(pipe2(err, O_CLOEXEC) == 0 && fcntl(saved, F_SETFD, FD_CLOEXEC) == 0 && dup2(err[1], 2) == 2);
    struct piped child = spawn_piped("child");
    check(dup2(saved, 2) == 2 && close(err[1]) == 0);
    for (int i = 0; i < 100; i++)
        check(atoi(hear_line(i % 2 ? err[0] : child.out)) == i);
    check(hear(err[0]) == -1 && hear(child.out) == -1);
    check(exited(wait_status(child.pid), 0));
    return ok();
}
