/* /proc/PID/maps of a process that runs is from several moments: the kernel fills a page at a time, and goes on behind the last mapping with
 * what there is by then (linux: m_next, fs/proc/task_mmu.c). One that has grown over that meanwhile is told of from its beginning on. */
#include "prog.h"
#include <sys/mman.h>

enum { PAGE = 4096, PAGES = 2048, READS = 100000 };

static char *memory;

/* Many small mappings, and all one again. */
static void *change_on(void *unused)
{
    for (;;) {
        for (int i = 0; i < PAGES; i += 2)
            check(mprotect(memory + i * PAGE, PAGE, PROT_READ) == 0);
        check(mprotect(memory, PAGES * PAGE, PROT_READ | PROT_WRITE) == 0);
    }
    return unused;
}

static int overlaps(int file)
{
    static char text[1 << 20];
    size_t length = 0;
    ssize_t got;
    while ((got = pread(file, text + length, sizeof text - 1 - length, length)) > 0)
        length += got;
    check(got == 0 && length < sizeof text - 1);
    text[length] = 0;
    unsigned long start, end, before = 0;
    for (char *line = text; line && *line; line = strchr(line, '\n'), line += line != NULL) {
        check(sscanf(line, "%lx-%lx", &start, &end) == 2);
        if (start < before)
            return 1;
        before = end;
    }
    return 0;
}

int main(int argc, char **argv)
{
    pthread_t changer;
    int file = open("/proc/self/maps", O_RDONLY), found = 0;
    begin(argc, argv);
    check(file >= 0);
    memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(memory != MAP_FAILED);
    check(pthread_create(&changer, NULL, change_on, NULL) == 0);
    for (int i = 0; i < READS && !found; i++)
        found = overlaps(file);
    check(found);
    return ok();
}
