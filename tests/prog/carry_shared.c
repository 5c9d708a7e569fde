/* Shared memory without a name stays one and the same wherever it is mapped, also where nobody looks at it just now. */
#include "prog.h"
#include <sys/mman.h>

enum { PAGE = 4096, PAGES = 64 };

int main(int argc, char **argv)
{
    const int rw = PROT_READ | PROT_WRITE;
    begin_carried(argc, argv);
    char *whole = mmap(NULL, PAGES * PAGE, rw, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(whole != MAP_FAILED);
    for (int i = 0; i < PAGES; i += 2)
        sprintf(whole + i * PAGE, "page %d", i);
    char *twice = mremap(whole, 0, PAGES * PAGE, MREMAP_MAYMOVE); /* a length of 0: once more */
    check(twice != MAP_FAILED && twice != whole && strcmp(twice, "page 0") == 0);
    check(munmap(whole + 10 * PAGE, 10 * PAGE) == 0);               /* in parts */
    check(mprotect(twice + 4 * PAGE, PAGE, PROT_READ) == 0);        /* and in others */
    check(munmap(twice + 8 * PAGE, 16 * PAGE) == 0);                /* nobody has these now */
    check(madvise(whole + 30 * PAGE, 4 * PAGE, MADV_DONTNEED) == 0); /* not in the page table, but there */
    char *alone = mmap(NULL, 2 * PAGE, rw, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(alone != MAP_FAILED && strcpy(alone, "alone"));
    char *sparse = mmap(NULL, 50UL << 30, rw, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    check(sparse != MAP_FAILED && strcpy(sparse + (40UL << 30), "far"));
    pid_t child = fork_child(); /* one that was inherited, and never looked at here */
    if (child == 0) {
        strcpy(alone + PAGE, "by a child");
        _exit(0);
    }
    check(exited(wait_status(child), 0));

    phase();

    for (int i = 0; i < 8; i += 2) {
        char text[16];
        sprintf(text, "page %d", i);
        check(strcmp(whole + i * PAGE, text) == 0 && strcmp(twice + i * PAGE, text) == 0);
    }
    check(strcmp(whole + 30 * PAGE, "page 30") == 0 && whole[31 * PAGE] == 0);
    strcpy(whole + 4 * PAGE, "new");
    strcpy(twice + 40 * PAGE, "other");
    check(strcmp(twice + 4 * PAGE, "new") == 0 && strcmp(whole + 40 * PAGE, "other") == 0);

    char *middle = mremap(whole + 5 * PAGE, 0, 10 * PAGE, MREMAP_MAYMOVE);
    check(middle != MAP_FAILED && strcmp(middle + PAGE, "page 6") == 0 && strcmp(middle + 9 * PAGE, "page 14") == 0);
    check(strcmp(alone, "alone") == 0 && strcmp(alone + PAGE, "by a child") == 0);
    check(strcmp(sparse + (40UL << 30), "far") == 0 && sparse[0] == 0);
    child = fork_child();
    if (child == 0) {
        whole[0] = twice[2 * PAGE] = 'c';
        _exit(0);
    }
    check(exited(wait_status(child), 0) && twice[0] == 'c' && whole[2 * PAGE] == 'c');
    return ok();
}
