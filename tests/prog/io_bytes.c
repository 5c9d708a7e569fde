/* All 256 byte values go through a child's standard input and output unchanged. */
#include "prog.h"

int main(int argc, char **argv)
{
    unsigned char buf[1024];
    ssize_t n;
    begin(argc, argv);
    if (role("child")) {
        while ((n = read(0, buf, sizeof buf)) > 0)
            check(write(1, buf, (size_t)n) == n);
        return n == 0 ? 0 : 1;
    }
    struct piped child = spawn_piped("child");
    for (int i = 0; i < 1024; i++)
        buf[i] = (unsigned char)(i * 7 + i / 256);
    check(write(child.in, buf, sizeof buf) == sizeof buf && close(child.in) == 0);
    for (int i = 0; i < 1024; i++)
        check(hear(child.out) == (unsigned char)(i * 7 + i / 256));
    check(hear(child.out) == -1 && exited(wait_status(child.pid), 0));
    return ok();
}
