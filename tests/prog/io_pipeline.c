/* Three children joined by pipes: what the first writes goes through the second to the third. */
#include "prog.h"

static pid_t part(const char *name, int in, int out)
{
    pid_t pid = fork_child();
    if (pid == 0) {
        check(dup2(in, 0) == 0 && dup2(out, 1) == 1);
        become(name);
    }
    return pid;
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("first"))
        for (int i = 1; i <= 1000; i++)
            dprintf(1, "%d\n", i);
    if (role("second"))
        for (char *line = hear_line(0); *line; line = hear_line(0))
            dprintf(1, "%d\n", atoi(line) * 2);
    if (role("third")) {
        int sum = 0;
        for (char *line = hear_line(0); *line; line = hear_line(0))
            sum += atoi(line);
        return sum == 1001000 ? 78 : 1;
    }
    if (argc > 1)
        return 0;
    int a[2], b[2];
    check(pipe2(a, O_CLOEXEC) == 0 && pipe2(b, O_CLOEXEC) == 0);
    pid_t first = part("first", 0, a[1]), second = part("second", a[0], b[1]), third = part("third", b[0], 2);
    for (int i = 0; i < 2; i++) {
        close(a[i]);
        close(b[i]);
    }
    check(exited(wait_status(first), 0) && exited(wait_status(second), 0) && exited(wait_status(third), 78));
    return ok();
}
