// advises WHAT GO DONE LOOK: locks one mapping, advises another, or seals a third, as WHAT says, when there is a file GO, and says so in DONE; when there is a
// file LOOK it prints what flags they have.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, ALL = 3 };

static void must(int yes, const char *doing)
{
    if (!yes) {
        perror(doing);
        exit(9);
    }
}

static void until_there_is(const char *file)
{
    while (access(file, F_OK))
        usleep(1000);
}

static void print_flags(const char *at)
{
    char start[32], line[4096];
    snprintf(start, sizeof start, "%lx-", (unsigned long)at);
    FILE *smaps = fopen("/proc/self/smaps", "r");
    must(smaps != NULL, "read smaps");
    int its = 0;
    while (fgets(line, sizeof line, smaps)) {
        if (!strncmp(line, start, strlen(start)))
            its = 1;
        if (its && !strncmp(line, "VmFlags: ", 9)) {
            fputs(line + 9, stdout);
            break;
        }
    }
    fclose(smaps);
}

int main(int argc, char **argv)
{
    must(argc == 5, "have four arguments");
    // Each is a mapping by itself.
    char *all = mmap(NULL, 2 * ALL * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *at[ALL];
    must(all != MAP_FAILED, "map");
    for (int i = 0; i < ALL; i++) {
        at[i] = all + 2 * i * PAGE;
        must(mprotect(at[i], PAGE, PROT_READ | PROT_WRITE) == 0, "let be written");
        *at[i] = 1;
    }
    printf("%d\n", getpid());
    fflush(stdout);
    until_there_is(argv[2]);
    if (!strcmp(argv[1], "lock"))
        must(mlock(at[0], PAGE) == 0, argv[1]);
    else if (!strcmp(argv[1], "advise"))
        must(madvise(at[1], PAGE, MADV_DONTFORK) == 0, argv[1]);
    else
        // mseal(2), since Linux 6.10.
        must(syscall(462, at[2], PAGE, 0) == 0, argv[1]);
    must(creat(argv[3], 0666) >= 0, argv[3]);
    until_there_is(argv[4]);
    for (int i = 0; i < ALL; i++)
        print_flags(at[i]);
}
