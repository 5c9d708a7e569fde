/* /proc/PID/maps of a process that runs is from several moments: the kernel fills a page at a time, and goes on behind the last mapping with
 * what there is by then (linux: m_next, fs/proc/task_mmu.c). One that has grown over that meanwhile is told of from its beginning on. */
#include "prog.h"
#include <sys/mman.h>

enum { PAGE = 4096, PAGES = 512 };

int main(int argc, char **argv)
{
    static char text[1 << 20];
    begin(argc, argv);
    char *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(memory != MAP_FAILED);
    /* Many small mappings, and all one again as soon as some of them have been told of. */
    for (int i = 0; i < PAGES; i += 2)
        check(mprotect(memory + i * PAGE, PAGE, PROT_READ) == 0);
    int file = open("/proc/self/maps", O_RDONLY), parts = 0;
    check(file >= 0);
    size_t length = 0;
    ssize_t got;
    unsigned long inside = (unsigned long)memory + PAGE, start, end, before = 0;
    char name[32];
    snprintf(name, sizeof name, "%lx-", inside);
    while ((got = read(file, text + length, sizeof text - 1 - length)) > 0) {
        length += got;
        parts++;
        if (strstr(text, name))
            check(mprotect(memory, PAGES * PAGE, PROT_READ | PROT_WRITE) == 0);
    }
    check(got == 0 && parts > 1);
    int overlaps = 0;
    for (char *line = text; line && *line; line = strchr(line, '\n'), line += line != NULL) {
        check(sscanf(line, "%lx-%lx", &start, &end) == 2);
        overlaps += start < before;
        before = end;
    }
    check(overlaps == 1);
    return ok();
}
