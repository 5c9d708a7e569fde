/* A child whose input is a file and whose output is another: the one is read to its end, the other written. */
#include "prog.h"

int main(int argc, char **argv)
{
    char a[] = "/tmp/io_file.XXXXXX", b[] = "/tmp/io_file.XXXXXX", buf[64];
    ssize_t n;
    begin(argc, argv);
    if (role("child")) {
        while ((n = read(0, buf, sizeof buf)) > 0)
            for (ssize_t i = 0; i < n; i++)
                say(1, (char)(buf[i] ^ 0x20));
        return n == 0 ? 84 : 1;
    }
    int in = mkostemp(a, O_CLOEXEC), out = mkostemp(b, O_CLOEXEC);
    check(in >= 0 && out >= 0 && unlink(a) == 0 && unlink(b) == 0);
    check(write(in, "Hello", 5) == 5 && lseek(in, 0, SEEK_SET) == 0);
    pid_t child = fork_child();
    if (child == 0) {
        check(dup2(in, 0) == 0 && dup2(out, 1) == 1);
        become("child");
    }
    check(exited(wait_status(child), 84));
    check(pread(out, buf, sizeof buf, 0) == 5 && memcmp(buf, "hELLO", 5) == 0);
    return ok();
}
