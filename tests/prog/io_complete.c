/* When wait has returned, all that the child wrote is in the file that was its output. */
#include "prog.h"

int main(int argc, char **argv)
{
    char name[] = "/tmp/io_complete.XXXXXX";
    begin(argc, argv);
    if (role("child")) {
        char line[100];
        memset(line, 'x', sizeof line);
        for (int i = 0; i < 5000; i++)
            check(write(1, line, sizeof line) == sizeof line);
        if (*arg(1) == 'k')
            raise(SIGKILL);
        return 80;
    }
    for (int i = 0; i < 4; i++) {
        struct stat st;
        int fd = mkostemp(name, O_APPEND | O_CLOEXEC);
        check(fd >= 0 && unlink(name) == 0);
        memcpy(name + strlen(name) - 6, "XXXXXX", 6);
        pid_t child = fork_child();
        if (child == 0) {
            check(dup2(fd, 1) == 1);
            become("child", i % 2 ? "k" : "e");
        }
        int status = wait_status(child);
        check(i % 2 ? killed(status, SIGKILL) : exited(status, 80));
        check(fstat(fd, &st) == 0 && st.st_size == 500000);
        close(fd);
    }
    return ok();
}
