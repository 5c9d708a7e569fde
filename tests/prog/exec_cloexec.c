/* exec closes what is marked close-on-exec and keeps the rest, with its offset. */
#include "prog.h"

int main(int argc, char **argv)
{
    char name[] = "/tmp/exec_cloexec.XXXXXX", c;
    begin(argc, argv);
    if (role("child")) {
        check(fcntl(atoi(arg(1)), F_GETFD) == -1 && errno == EBADF);
        check(read(atoi(arg(2)), &c, 1) == 1 && c == 'b');
        return 0;
    }
    int keep = mkstemp(name);
    check(keep >= 0 && unlink(name) == 0 && write(keep, "ab", 2) == 2 && lseek(keep, 1, SEEK_SET) == 1);
    int gone = fcntl(keep, F_DUPFD_CLOEXEC, 3);
    check(gone >= 3);
    pid_t child = fork_child();
    if (child == 0) {
        execl("/proc/self/exe", "exec_cloexec", "child", text(gone), text(keep), NULL);
        check(!"exec");
    }
    check(exited(wait_status(child), 0));
    return ok();
}
