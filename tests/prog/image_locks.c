/* Locks on files are held after a journey by whom they were: the process, the open file. */
#include "prog.h"
#include <sys/file.h>

/* What a child finds locked: the kind of lock that is in the way of a write lock on this range. */
static int in_the_way(int fd, off_t start, off_t length)
{
    struct flock lock = {.l_type = F_WRLCK, .l_start = start, .l_len = length};
    pid_t child = fork_child();
    if (child == 0)
        _exit(fcntl(fd, F_GETLK, &lock) == 0 ? lock.l_type : 99);
    int status = wait_status(child);
    check(WIFEXITED(status));
    return WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
    char name[] = "/tmp/image_locks.XXXXXX", other_name[] = "/tmp/carry_locks.XXXXXX";
    begin_carried(argc, argv);
    int fd = mkstemp(name), again = open(name, O_RDWR), whole = mkstemp(other_name);
    check(fd >= 0 && again >= 0 && whole >= 0 && ftruncate(fd, 1000) == 0);
    struct flock first = {.l_type = F_WRLCK, .l_start = 10, .l_len = 20}, second = {.l_type = F_RDLCK, .l_start = 100};
    struct flock open_file = {.l_type = F_WRLCK, .l_start = 50, .l_len = 1};
    check(fcntl(fd, F_SETLK, &first) == 0 && fcntl(fd, F_SETLK, &second) == 0);
    check(fcntl(again, F_OFD_SETLK, &open_file) == 0 && flock(whole, LOCK_EX) == 0);

    phase();

    check(in_the_way(fd, 0, 10) == F_UNLCK && in_the_way(fd, 29, 1) == F_WRLCK && in_the_way(fd, 30, 20) == F_UNLCK);
    check(in_the_way(fd, 50, 1) == F_WRLCK && in_the_way(fd, 5000, 1) == F_RDLCK);
    int stranger = open(other_name, O_RDWR);
    check(stranger >= 0 && flock(stranger, LOCK_SH | LOCK_NB) == -1 && errno == EWOULDBLOCK);
    check(flock(whole, LOCK_UN) == 0 && flock(stranger, LOCK_SH | LOCK_NB) == 0);
    check(unlink(name) == 0 && unlink(other_name) == 0);
    return ok();
}
