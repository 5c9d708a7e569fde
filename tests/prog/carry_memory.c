/* Every sort of mapping is there after a journey, with what was in it. */
#include "prog.h"
#include <sys/mman.h>

enum { PAGE = 4096, PAGES = 600 };

static char *map(size_t length, int prot, int flags, int fd)
{
    char *at = mmap(NULL, length, prot, flags, fd, 0);
    check(at != MAP_FAILED);
    return at;
}

static void fill(char *at, size_t length, unsigned seed)
{
    for (size_t i = 0; i < length; i++)
        at[i] = (char)(seed = seed * 1103515245 + 12345) >> 3;
}

static int filled(const char *at, size_t length, unsigned seed)
{
    for (size_t i = 0; i < length; i++)
        if (at[i] != (char)((char)(seed = seed * 1103515245 + 12345) >> 3))
            return 0;
    return 1;
}

static char data[3 * PAGE] = "initialised";
static const char constant[] = "constant";

int main(int argc, char **argv)
{
    begin_carried(argc, argv);
    const int rw = PROT_READ | PROT_WRITE, anon = MAP_PRIVATE | MAP_ANONYMOUS;
    char name[] = "/tmp/carry_memory.XXXXXX";
    int fd = mkstemp(name);
    check(fd >= 0 && ftruncate(fd, 8 * PAGE) == 0);
    char *file_shared = map(8 * PAGE, rw, MAP_SHARED, fd);
    fill(file_shared, 8 * PAGE, 5);
    char *file_private = map(8 * PAGE, rw, MAP_PRIVATE, fd);
    fill(file_private + PAGE, PAGE, 6);
    char *many = map(PAGES * PAGE, rw, anon, -1);
    for (int i = 0; i < PAGES; i += 3)
        fill(many + i * PAGE, PAGE, (unsigned)i);
    char *shared = map(4 * PAGE, rw, MAP_SHARED | MAP_ANONYMOUS, -1);
    fill(shared + PAGE, 2 * PAGE, 7);
    char *read_only = map(2 * PAGE, rw, anon, -1);
    fill(read_only, 2 * PAGE, 8);
    check(mprotect(read_only, 2 * PAGE, PROT_READ) == 0);
    char *nothing = map(2 * PAGE, rw, anon, -1);
    fill(nothing, 2 * PAGE, 9);
    check(mprotect(nothing, 2 * PAGE, PROT_NONE) == 0);
    char *sparse = map(100UL << 30, rw, anon | MAP_NORESERVE, -1);
    fill(sparse + (70UL << 30), PAGE, 10);
    char *dontfork = map(PAGE, rw, anon, -1), *wipe = map(PAGE, rw, anon, -1), *locked = map(4 * PAGE, rw, anon, -1);
    check(madvise(dontfork, PAGE, MADV_DONTFORK) == 0 && madvise(wipe, PAGE, MADV_WIPEONFORK) == 0);
    char *undumped = map(PAGE, rw, anon, -1), *huge = map(8 << 20, rw, anon, -1);
    check(madvise(undumped, PAGE, MADV_DONTDUMP) == 0 && madvise(huge, 8 << 20, MADV_HUGEPAGE) == 0);
    fill(huge, 5 << 20, 11);
    check(mlock(locked, 4 * PAGE) == 0);
    char *heap = sbrk(3 * PAGE), *end = sbrk(0);
    check(heap != (void *)-1);
    fill(heap, 3 * PAGE, 12);
    fill(data + PAGE, PAGE, 13);
    char stack[3 * PAGE];
    fill(stack, sizeof stack, 14);

    phase();

    check(filled(heap, 3 * PAGE, 12) && sbrk(0) == end && sbrk(PAGE) == end);
    check(filled(file_shared, 8 * PAGE, 5) && filled(file_private + PAGE, PAGE, 6));
    fill(file_shared + 2 * PAGE, PAGE, 15);
    check(filled(file_private + 2 * PAGE, PAGE, 15)); /* not written there: still the file's */
    for (int i = 0; i < PAGES; i++) {
        static const char zero[PAGE];
        check(i % 3 == 0 ? filled(many + i * PAGE, PAGE, (unsigned)i) : memcmp(many + i * PAGE, zero, PAGE) == 0);
    }
    check(filled(shared + PAGE, 2 * PAGE, 7) && shared[0] == 0);
    pid_t child = fork_child();
    if (child == 0) {
        shared[0] = 'c'; /* still shared */
        _exit(0);
    }
    check(exited(wait_status(child), 0) && shared[0] == 'c');
    check(filled(read_only, 2 * PAGE, 8));
    check(write(fd, nothing, 1) == -1 && errno == EFAULT && mprotect(nothing, 2 * PAGE, PROT_READ) == 0);
    check(filled(nothing, 2 * PAGE, 9));
    check(filled(sparse + (70UL << 30), PAGE, 10) && sparse[0] == 0);
    check(has_flag(dontfork, " dc") && has_flag(wipe, " wf") && has_flag(undumped, " dd") && has_flag(huge, " hg"));
    check(has_flag(locked, " lo") && has_flag(sparse, " nr"));
    check(filled(huge, 5 << 20, 11));
    check(filled(data + PAGE, PAGE, 13) && strcmp(data, "initialised") == 0 && strcmp(constant, "constant") == 0);
    check(filled(stack, sizeof stack, 14));
    check(unlink(name) == 0);
    return ok();
}
