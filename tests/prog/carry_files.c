/* Open files keep their offsets, flags and what they share; directories where one has come to in them; devices are there. */
#include "prog.h"
#include <dirent.h>

static const char *const devices[] = {"/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"};
enum { DEVICES = sizeof devices / sizeof *devices, ENTRIES = 40 };

/* Reads a directory on, a few names at a time, and marks each. */
static int read_some(int fd, int *seen, int rounds)
{
    static char room[128] __attribute__((aligned(8)));
    long n = 1;
    while (rounds-- && (n = syscall(SYS_getdents64, fd, room, sizeof room)) > 0)
        for (long at = 0; at < n; at += ((struct dirent64 *)(room + at))->d_reclen) {
            const char *name = ((struct dirent64 *)(room + at))->d_name;
            if (name[0] != '.')
                seen[atoi(name)]++;
        }
    return n > 0;
}

int main(int argc, char **argv)
{
    char name[] = "/tmp/carry_files.XXXXXX", directory[] = "/tmp/carry_files.XXXXXX", text[16] = "";
    int opened[DEVICES], seen[ENTRIES] = {0};
    begin_carried(argc, argv);
    int fd = mkstemp(name);
    check(fd >= 0 && write(fd, "0123456789", 10) == 10 && lseek(fd, 4, SEEK_SET) == 4);
    int same = dup(fd), high = fcntl(fd, F_DUPFD_CLOEXEC, 300), other = open(name, O_RDONLY);
    int append = open(name, O_WRONLY | O_APPEND | O_CLOEXEC), null = open("/dev/null", O_RDWR | O_NONBLOCK);
    int dir = open("/tmp", O_RDONLY | O_DIRECTORY), path = open(name, O_PATH);
    check(same >= 0 && high >= 300 && other >= 0 && append >= 0 && null >= 0 && dir >= 0 && path >= 0);
    for (int i = 0; i < DEVICES; i++)
        check((opened[i] = open(devices[i], O_RDWR)) >= 0);
    check(mkdtemp(directory));
    int entries = open(directory, O_RDONLY | O_DIRECTORY);
    check(entries >= 0);
    for (int i = 0; i < ENTRIES; i++)
        check(mkdirat(entries, (snprintf(text, sizeof text, "%d", i), text), 0700) == 0);
    check(read_some(entries, seen, 3));
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
    check(read(opened[0], text, 4) == 4 && memcmp(text, "\0\0\0\0", 4) == 0 && write(opened[1], "x", 1) == -1 && errno == ENOSPC);
    check(read(opened[2], text, 4) == 4 && read(opened[3], text, 4) == 4);
    check(!read_some(entries, seen, -1));
    for (int i = 0; i < ENTRIES; i++)
        check(seen[i] == 1 && unlinkat(entries, (snprintf(text, sizeof text, "%d", i), text), AT_REMOVEDIR) == 0);
    check(close(entries) == 0 && rmdir(directory) == 0);
    for (int i = 0; i < DEVICES; i++)
        check(close(opened[i]) == 0);
    for (int i = 3; i < 400; i++)
        check(i == fd || i == same || i == high || i == other || i == append || i == null || i == dir || i == path ||
              fcntl(i, F_GETFD) == -1);
    check(unlink(name) == 0);
    return ok();
}
