/* After fork memory is each one's own, open files share their offset. */
#include "prog.h"

static int value = 1;

int main(int argc, char **argv)
{
    char name[] = "/tmp/fork_memory.XXXXXX", two[2];
    begin(argc, argv);
    int fd = mkstemp(name);
    check(fd >= 0 && unlink(name) == 0);
    check(write(fd, "abcd", 4) == 4 && lseek(fd, 0, SEEK_SET) == 0);
    pid_t child = fork_child();
    if (child == 0) {
        value = 2;
        check(read(fd, two, 2) == 2 && memcmp(two, "ab", 2) == 0);
        _exit(value);
    }
    check(exited(wait_status(child), 2) && value == 1);
    check(read(fd, two, 2) == 2 && memcmp(two, "cd", 2) == 0);
    return ok();
}
