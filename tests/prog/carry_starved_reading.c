/* A journey while a thread of the lowest priority reads what the kernel tells of the process, and others leave it no processor for long. */
#include "prog.h"

enum { MAPPINGS = 200 };

static volatile int enough;
static volatile unsigned long rounds;

/* Each mapping behind the one before, with all that is told of it, and that once. */
static int makes_sense(char *text)
{
    unsigned long end = 0, from, to;
    int open = 0, mappings = 0;
    char *rest = text, *line;
    while ((line = strsep(&rest, "\n")) && *line) {
        char name[32];
        if (sscanf(line, "%lx-%lx %31s", &from, &to, name) == 3 && strlen(name) == 4) {
            if (open || from < end || to <= from)
                return 0;
            end = to, open = 1, mappings++;
        } else if (sscanf(line, "%31[A-Za-z_]:", name) != 1 || !strchr(line, ':') || !open) {
            return 0;
        } else if (strcmp(name, "VmFlags") == 0) {
            open = 0;
        }
    }
    return mappings > MAPPINGS && !open;
}

static void *read_on(void *text)
{
    check(setpriority(PRIO_PROCESS, (id_t)gettid(), 19) == 0);
    while (!enough) {
        size_t length = 0;
        ssize_t got;
        int fd = open("/proc/self/smaps", O_RDONLY);
        check(fd >= 0);
        while ((got = read(fd, (char *)text + length, 200)) > 0)
            length += (size_t)got;
        check(got == 0 && close(fd) == 0);
        ((char *)text)[length] = 0;
        check(makes_sense(text));
        rounds++;
        usleep(50000);
    }
    return text;
}

static void *compute(void *none)
{
    for (volatile double x = 1; !enough; x *= 1.0000001)
        ;
    return none;
}

int main(int argc, char **argv)
{
    static char text[1 << 20];
    begin_carried(argc, argv);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *all = mmap(NULL, 2 * MAPPINGS * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(all != MAP_FAILED);
    for (int i = 0; i < MAPPINGS; i++)
        check(mprotect(all + 2 * (size_t)i * page, page, PROT_NONE) == 0);
    pthread_t threads[5];
    check(pthread_create(&threads[4], NULL, read_on, text) == 0);
    for (int i = 0; i < 4; i++)
        check(pthread_create(&threads[i], NULL, compute, NULL) == 0);
    for (int journey = 0; journey < 3; journey++) {
        unsigned long then = rounds;
        phase();
        until(rounds > then + 1); /* what was being read is read to its end */
    }
    enough = 1;
    for (int i = 0; i < 5; i++)
        check(pthread_join(threads[i], NULL) == 0);
    return ok();
}
