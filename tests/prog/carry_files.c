/* Open files keep their offsets, flags and what they share. */
#include "prog.h"

int main(int argc, char **argv)
{
    char name[] = "/tmp/carry_files.XXXXXX", text[16] = "";
    begin_carried(argc, argv);
    int fd = mkstemp(name);
    check(fd >= 0 && write(fd, "0123456789", 10) == 10 && lseek(fd, 4, SEEK_SET) == 4);
    int same = dup(fd), high = fcntl(fd, F_DUPFD_CLOEXEC, 300), other = open(name, O_RDONLY);
    int append = open(name, O_WRONLY | O_APPEND | O_CLOEXEC), null = open("/dev/null", O_RDWR | O_NONBLOCK);
    int dir = open("/tmp", O_RDONLY | O_DIRECTORY), path = open(name, O_PATH);
    check(same >= 0 && high >= 300 && other >= 0 && append >= 0 && null >= 0 && dir >= 0 && path >= 0);
    check(lseek(other, 7, SEEK_SET) == 7 && close(2) == 0 && dup2(1, 2) == 2);

    phase();

    check(read(same, text, 2) == 2 && memcmp(text, "45", 2) == 0);
    check(lseek(fd, 0, SEEK_CUR) == 6 && lseek(high, 0, SEEK_CUR) == 6);
    check(lseek(other, 0, SEEK_CUR) == 7 && write(other, "x", 1) == -1 && errno == EBADF);
    check(fcntl(high, F_GETFD) == FD_CLOEXEC && fcntl(fd, F_GETFD) == 0 && fcntl(append, F_GETFD) == FD_CLOEXEC);
    check(write(append, "end", 3) == 3 && lseek(other, 0, SEEK_END) == 13);
    check((fcntl(append, F_GETFL) & (O_ACCMODE | O_APPEND)) == (O_WRONLY | O_APPEND));
    check(write(null, "x", 1) == 1 && fcntl(null, F_GETFL) & O_NONBLOCK);
    check(faccessat(dir, strrchr(name, '/') + 1, R_OK, 0) == 0);
    check(read(path, text, 1) == -1 && errno == EBADF);
    for (int i = 3; i < 400; i++)
        check(i == fd || i == same || i == high || i == other || i == append || i == null || i == dir || i == path ||
              fcntl(i, F_GETFD) == -1);
    check(unlink(name) == 0);
    return ok();
}
