/* Shared memory of huge pages from their pool (MAP_SHARED | MAP_HUGETLB, memfd_create with MFD_HUGETLB), where that has enough of them for two of this: it stays one and the
 * same wherever it is mapped, of that size, with what is in it. Elsewhere it is memory of small pages. */
#include "prog.h"
#include <sys/mman.h>
#include <sys/vfs.h>

enum { PAGES = 3 };
static const size_t HUGE = 2UL << 20;
static const int rw = PROT_READ | PROT_WRITE;

static int pool = MAP_HUGETLB | 21 << MAP_HUGE_SHIFT;

/* As many as this needs, and a second one of it: where both are on one machine for a moment. */
static int enough(void)
{
    size_t length = 2 * (3 * PAGES + 1) * HUGE;
    void *at = mmap(NULL, length, rw, MAP_PRIVATE | MAP_ANONYMOUS | pool, -1, 0);
    return at != MAP_FAILED && munmap(at, length) == 0;
}

static char *map(int pages, int flags, int fd, int page)
{
    char *at = mmap(NULL, (size_t)pages * HUGE, rw, MAP_SHARED | flags, fd, page * (off_t)HUGE);
    check(at != MAP_FAILED);
    return at;
}

static int make(const char *name)
{
    unsigned huge = pool ? MFD_HUGETLB | 21U << MAP_HUGE_SHIFT : 0;
    int fd = memfd_create(name, MFD_ALLOW_SEALING | huge);
    check(fd >= 0 && ftruncate(fd, PAGES * (off_t)HUGE) == 0);
    return fd;
}

static long page_of(int fd)
{
    struct statfs system;
    check(fstatfs(fd, &system) == 0);
    return system.f_bsize;
}

int main(int argc, char **argv)
{
    char link[64], name[PATH_MAX] = "", text[8] = "";
    begin_carried(argc, argv);
    int there = enough();
    if (!there)
        pool = 0;
    char *some = map(PAGES, MAP_ANONYMOUS | pool, -1, 0), *kept = map(1, MAP_ANONYMOUS | MAP_NORESERVE | pool, -1, 0);
    for (size_t at = 0; at < HUGE; at += 512)
        *(size_t *)(some + at) = at * 7 + 1;
    some[2 * HUGE + 12345] = 'l', some[PAGES * HUGE - 1] = 'e', kept[5] = 'k';
    int fd = make("a pool"), gone = make("gone");
    char *whole = map(PAGES, 0, fd, 0), *part = map(1, 0, fd, 2), *of_gone = map(PAGES, 0, gone, 0);
    strcpy(whole + 2 * HUGE + 7, "part"), strcpy(of_gone + HUGE, "still");
    check(close(gone) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0 && lseek(fd, 2 * (off_t)HUGE + 7, SEEK_SET) > 0);
    check(mprotect(of_gone, HUGE, PROT_READ) == 0);

    phase();

    for (size_t at = 0; at < HUGE; at += 512)
        check(*(size_t *)(some + at) == at * 7 + 1);
    check(some[HUGE] == 0 && some[2 * HUGE + 12345] == 'l' && some[PAGES * HUGE - 1] == 'e' && kept[5] == 'k' && kept[6] == 0);
    check(strcmp(part + 7, "part") == 0 && strcmp(of_gone + HUGE, "still") == 0 && whole[0] == 0);
    strcpy(whole + 2 * HUGE + 7, "both");
    check(strcmp(part + 7, "both") == 0 && read(fd, text, 5) == 5 && strcmp(text, "both") == 0);
    pid_t child = fork_child();
    if (child == 0) {
        strcpy(some + HUGE, "by a child");
        _exit(0);
    }
    check(exited(wait_status(child), 0) && strcmp(some + HUGE, "by a child") == 0);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    check(readlink(link, name, sizeof name) > 0 && strcmp(name, "/memfd:a pool (deleted)") == 0);
    check(fcntl(fd, F_GET_SEALS) == F_SEAL_SHRINK && ftruncate(fd, 0) == -1 && errno == EPERM);
    check(page_of(fd) == (there ? (long)HUGE : 4096));
    const char *all[] = { some, kept, whole, part, of_gone };
    for (int i = 0; i < 5; i++)
        check(has_flag(all[i], " ht") == there && has_flag(all[i], " sh"));
    check(has_flag(kept, " nr") && !has_flag(some, " nr") && !has_flag(of_gone, " wr"));
    check(munmap(some, PAGES * HUGE) == 0 && munmap(kept, HUGE) == 0);
    return ok();
}
