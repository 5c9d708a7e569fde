/* What exec refuses, and how: the process goes on with the errno of the reason. */
#include "prog.h"

static int refused(const char *path, int err)
{
    char *args[] = {"x", NULL};
    execv(path, args);
    return errno == err;
}

int main(int argc, char **argv)
{
    char name[] = "/tmp/exec_errors.XXXXXX";
    begin(argc, argv);
    check(refused("/nonexistent", ENOENT));
    check(refused("", ENOENT));
    check(refused("/", EACCES));
    check(refused("/etc/passwd/x", ENOTDIR));
    check(refused("/etc/passwd", EACCES));
    int fd = mkstemp(name);
    check(fd >= 0 && write(fd, "\1\2\3\4", 4) == 4 && fchmod(fd, 0700) == 0);
    int busy = refused(name, ETXTBSY);
    close(fd);
    int noexec = refused(name, ENOEXEC);
    check(unlink(name) == 0 && busy && noexec);
    size_t len = 64 << 20;
    char *big = malloc(len + 1);
    check(big);
    memset(big, 'x', len);
    big[len] = 0;
    execl("/proc/self/exe", "x", big, NULL);
    check(errno == E2BIG);
    return ok();
}
