/* 16 MiB through a child, in at one side and out at the other at the same time, byte for byte. */
#include "prog.h"

enum { TOTAL = 16 << 20, PIECE = 1 << 16 };
static unsigned char buf[PIECE];

static unsigned char byte_at(size_t i) { return (unsigned char)(i * 2654435761u >> 13); }

int main(int argc, char **argv)
{
    ssize_t n;
    begin(argc, argv);
    if (role("child")) {
        while ((n = read(0, buf, sizeof buf)) > 0)
            for (ssize_t at = 0, m; at < n; at += m)
                check((m = write(1, buf + at, (size_t)(n - at))) > 0);
        return n == 0 ? 0 : 1;
    }
    struct piped child = spawn_piped("child");
    pid_t writer = fork_child();
    if (writer == 0) {
        for (size_t at = 0; at < TOTAL; at += PIECE) {
            for (size_t i = 0; i < PIECE; i++)
                buf[i] = byte_at(at + i);
            check(write(child.in, buf, PIECE) == PIECE);
        }
        _exit(0);
    }
    size_t got = 0;
    close(child.in);
    while ((n = read(child.out, buf, sizeof buf)) > 0)
        for (ssize_t i = 0; i < n; i++, got++)
            check(buf[i] == byte_at(got));
    check(n == 0 && got == TOTAL);
    check(exited(wait_status(child.pid), 0) && exited(wait_status(writer), 0));
    return ok();
}
