/* Deleted files and O_TMPFILE are carried with what is in them: open, mapped, once or several times. */
#include "prog.h"
#include <sys/file.h>
#include <sys/mman.h>

enum { PAGE = 4096, SIZE = 40 * PAGE };

static char *map(int prot, int flags, int fd, off_t at)
{
    char *where = mmap(NULL, 2 * PAGE, prot, flags, fd, at);
    check(where != MAP_FAILED);
    return where;
}

int main(int argc, char **argv)
{
    char name[] = "/tmp/carry_deleted.XXXXXX", directory[] = "/tmp/carry_deleted.XXXXXX", inner[PATH_MAX], link[64], text[8] = "";
    const int rw = PROT_READ | PROT_WRITE;
    struct stat before, after;
    begin_carried(argc, argv);
    int fd = mkstemp(name), other = open(name, O_RDONLY), append = open(name, O_WRONLY | O_APPEND);
    check(fd >= 0 && other >= 0 && append >= 0 && ftruncate(fd, SIZE) == 0 && fchmod(fd, 0640) == 0);
    check(pwrite(fd, "begin", 5, 0) == 5 && pwrite(fd, "far", 3, 30 * PAGE) == 3);
    char *shared = map(rw, MAP_SHARED, fd, 0), *again = map(PROT_READ, MAP_SHARED, other, 0);
    char *private = map(rw, MAP_PRIVATE, fd, 29 * PAGE);
    strcpy(shared + 100, "through the mapping");
    strcpy(private, "mine alone");
    check(lseek(other, 3, SEEK_SET) == 3 && unlink(name) == 0);
    struct timespec times[2] = {{.tv_sec = 1000000000, .tv_nsec = 7}, {.tv_sec = 1100000000, .tv_nsec = 8}};
    check(fsync(fd) == 0 && futimens(fd, times) == 0 && flock(fd, LOCK_EX) == 0 && fstat(fd, &before) == 0);
    int unnamed = open("/tmp", O_TMPFILE | O_RDWR, 0600);
    check(unnamed >= 0 && write(unnamed, "to be named", 11) == 11);
    check(mkdtemp(directory));
    snprintf(inner, sizeof inner, "%s/inner", directory);
    int mapped = open(inner, O_CREAT | O_RDWR, 0600); /* mapped only, and its directory goes too */
    check(mapped >= 0 && write(mapped, "only mapped", 11) == 11);
    char *only = map(PROT_READ, MAP_PRIVATE, mapped, 0);
    check(close(mapped) == 0 && unlink(inner) == 0 && rmdir(directory) == 0);

    phase();

    check(fstat(fd, &after) == 0 && after.st_nlink == 0 && after.st_size == SIZE && after.st_mode == before.st_mode);
    check(after.st_mtim.tv_sec == 1100000000 && after.st_mtim.tv_nsec == 8 && after.st_uid == before.st_uid);
    check(after.st_blocks <= before.st_blocks && access(name, F_OK) == -1);
    check(read(other, text, 2) == 2 && memcmp(text, "in", 2) == 0 && write(other, "x", 1) == -1 && errno == EBADF);
    check(strcmp(shared + 100, "through the mapping") == 0 && memcmp(again, "begin", 5) == 0);
    check(strcmp(private, "mine alone") == 0 && memcmp(private + PAGE, "far", 3) == 0);
    strcpy(shared + 5, "ning");
    check(memcmp(again, "beginning", 9) == 0 && pread(other, text, 4, 5) == 4 && memcmp(text, "ning", 4) == 0);
    check(write(append, "end", 3) == 3 && fstat(other, &after) == 0 && after.st_size == SIZE + 3);
    struct flock lock = {.l_type = F_WRLCK};
    check(fcntl(fd, F_SETLK, &lock) == 0 && flock(fd, LOCK_UN) == 0);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    check(linkat(AT_FDCWD, link, AT_FDCWD, name, AT_SYMLINK_FOLLOW) == -1 && errno == ENOENT); /* it had a name once */
    snprintf(link, sizeof link, "/proc/self/fd/%d", unnamed);
    check(linkat(AT_FDCWD, link, AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0 && stat(name, &after) == 0 && after.st_size == 11);
    check(lseek(unnamed, 0, SEEK_CUR) == 11 && unlink(name) == 0);
    check(strcmp(only, "only mapped") == 0);
    return ok();
}
