/* What the kernel tells of this process in /proc/self/smaps, read in little parts: all of it is of one process, however that moves meanwhile. */
#ifndef SMAPS_H
#define SMAPS_H
#include "prog.h"

/* Each mapping behind the one before, with all that is told of it, and that once. */
static int makes_sense(char *text, int least)
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
    return mappings > least && !open;
}

/* Reads it into `text`, this many bytes at once; it tells of more than `least` mappings. */
static void read_smaps(char *text, size_t at_once, int least)
{
    size_t length = 0;
    ssize_t got;
    int fd = open("/proc/self/smaps", O_RDONLY);
    check(fd >= 0);
    while ((got = read(fd, text + length, at_once)) > 0)
        length += (size_t)got;
    check(got == 0 && close(fd) == 0);
    text[length] = 0;
    check(makes_sense(text, least));
}

#endif
