/* A journey while a thread reads, again and again and in little parts, what the kernel tells of the process; and with a file of that kind that was left after a part of it. */
#include "prog.h"

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
    return mappings > 10 && !open;
}

static void *read_on(void *text)
{
    while (!enough) {
        size_t length = 0;
        ssize_t got;
        int fd = open("/proc/self/smaps", O_RDONLY);
        check(fd >= 0);
        while ((got = read(fd, (char *)text + length, 500)) > 0)
            length += (size_t)got;
        check(got == 0 && close(fd) == 0);
        ((char *)text)[length] = 0;
        check(makes_sense(text));
        rounds++;
        usleep(500);
    }
    return text;
}

int main(int argc, char **argv)
{
    static char text[1 << 20];
    begin_carried(argc, argv);
    for (int journey = 0; journey < 3; journey++) {
        char some[16];
        pthread_t reader;
        int left = open("/proc/version", O_RDONLY);
        check(left >= 0 && read(left, some, 5) == 5 && memcmp(some, "Linux", 5) == 0);
        enough = 0;
        check(pthread_create(&reader, NULL, read_on, text) == 0);
        phase();
        unsigned long then = rounds;
        until(rounds > then + 100); /* it goes on */
        enough = 1;
        check(pthread_join(reader, NULL) == 0);
        check(read(left, some, 9) == 9 && memcmp(some, " version ", 9) == 0 && close(left) == 0);
    }
    return ok();
}
