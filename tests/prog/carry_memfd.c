/* Memory files keep their names, contents, seals and what shares them. */
#include "prog.h"
#include <sys/mman.h>
#include <sys/vfs.h>

enum { PAGE = 4096, SIZE = 10 * PAGE };

static char *map(int prot, int flags, int fd, off_t at)
{
    char *where = mmap(NULL, 2 * PAGE, prot, flags, fd, at);
    check(where != MAP_FAILED);
    return where;
}

static int make(const char *name, unsigned flags)
{
    int fd = memfd_create(name, flags);
    check(fd >= 0 && ftruncate(fd, SIZE) == 0 && pwrite(fd, name, strlen(name), PAGE) == (ssize_t)strlen(name));
    return fd;
}

int main(int argc, char **argv)
{
    const int rw = PROT_READ | PROT_WRITE;
    char link[64], name[PATH_MAX] = "", text[16] = "";
    begin_carried(argc, argv);
    int plain = make("plain one", MFD_CLOEXEC), sealed = make("sealed", MFD_ALLOW_SEALING), future = make("future", MFD_ALLOW_SEALING);
    int open_to_seals = make("", MFD_ALLOW_SEALING), gone = make("gone", 0);
    snprintf(link, sizeof link, "/proc/self/fd/%d", plain);
    int read_only = open(link, O_RDONLY);
    check(read_only >= 0 && lseek(read_only, PAGE + 6, SEEK_SET) == PAGE + 6);
    char *shared = map(rw, MAP_SHARED, plain, 0), *part = map(PROT_READ, MAP_SHARED, read_only, PAGE);
    char *private = map(rw, MAP_PRIVATE, plain, PAGE);
    strcpy(private + 20, "private");
    check(fcntl(sealed, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
    char *of_sealed = map(PROT_READ, MAP_PRIVATE, sealed, PAGE);
    char *writable = map(rw, MAP_SHARED, future, PAGE); /* may write on; others may not begin to */
    check(fcntl(future, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) == 0);
    char *of_gone = map(rw, MAP_SHARED, gone, PAGE), *of_gone_too = map(PROT_READ, MAP_SHARED, gone, PAGE);
    check(close(gone) == 0);

    phase();

    check(readlink(link, name, sizeof name) > 0 && strcmp(name, "/memfd:plain one (deleted)") == 0);
    check(fcntl(plain, F_GETFD) == FD_CLOEXEC && fcntl(sealed, F_GETFD) == 0);
    check(fcntl(plain, F_GET_SEALS) == F_SEAL_SEAL && fcntl(open_to_seals, F_GET_SEALS) == 0);
    check(fcntl(sealed, F_GET_SEALS) == (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL));
    check(fcntl(future, F_GET_SEALS) == (F_SEAL_FUTURE_WRITE | F_SEAL_SEAL));
    check(read(read_only, text, 3) == 3 && memcmp(text, "one", 3) == 0);
    check(memcmp(part, "plain one", 9) == 0 && strcmp(private + 20, "private") == 0 && part[20] == 0);
    strcpy(shared + PAGE, "changed");
    check(strcmp(part, "changed") == 0 && strcmp(private, "plain one") == 0);
    check(pread(plain, text, 8, PAGE) == 8 && strcmp(text, "changed") == 0);
    check(strcmp(of_sealed, "sealed") == 0 && write(sealed, "x", 1) == -1 && errno == EPERM && ftruncate(sealed, 0) == -1);
    strcpy(writable, "still");
    check(pread(future, text, 6, PAGE) == 6 && strcmp(text, "still") == 0 && pwrite(future, "x", 1, 0) == -1 && errno == EPERM);
    check(mmap(NULL, PAGE, rw, MAP_SHARED, future, 0) == MAP_FAILED);
    check(strcmp(of_gone, "gone") == 0);
    strcpy(of_gone, "here");
    check(strcmp(of_gone_too, "here") == 0);
    check(fcntl(open_to_seals, F_ADD_SEALS, F_SEAL_GROW) == 0 && ftruncate(open_to_seals, 2 * SIZE) == -1);
    struct stat at;
    check(fstat(plain, &at) == 0 && at.st_size == SIZE);
    return ok();
}
