/* More mappings of files than descriptors may be had: of one file, and of several, by turns with memory of none. */
#include "prog.h"

enum { PAGE = 4096, MANY = 7000, FILES = 5 };

int main(int argc, char **argv)
{
    begin_carried(argc, argv);
    int fds[FILES];
    for (int i = 0; i < FILES; i++) {
        char name[64];
        sprintf(name, "/tmp/carry_many_mappings.%d.%d", getpid(), i);
        fds[i] = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
        check(fds[i] >= 0 && write(fds[i], name, sizeof name) == sizeof name && ftruncate(fds[i], PAGE) == 0);
    }
    /* Each second page stays memory of no file, so that no two mappings are one. */
    char *all = mmap(NULL, 2L * PAGE * MANY, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(all != MAP_FAILED);
    for (int i = 0; i < MANY; i++) {
        int how = MAP_FIXED | (i % 7 ? MAP_PRIVATE : MAP_SHARED);
        char *at = mmap(all + 2L * PAGE * i, PAGE, PROT_READ | PROT_WRITE, how, fds[i % FILES], 0);
        check(at != MAP_FAILED);
        if (i % 7)
            memcpy(at + 100, &i, sizeof i);
    }
    for (int i = 0; i < FILES; i++)
        check(close(fds[i]) == 0);

    phase();

    for (int i = 0; i < MANY; i++) {
        char *at = all + 2L * PAGE * i;
        char name[64];
        int number;
        sprintf(name, "/tmp/carry_many_mappings.%d.%d", getpid(), i % FILES);
        memcpy(&number, at + 100, sizeof number);
        check(strcmp(at, name) == 0 && number == (i % 7 ? i : 0));
    }
    /* What is shared is one page of the file, whichever mapping it is written by. */
    strcpy(all + 200, "shared");
    check(strcmp(all + 2L * PAGE * 35 + 200, "shared") == 0 && strcmp(all + 2L * PAGE * 5 + 200, "") == 0);
    for (int i = 0; i < FILES; i++) {
        char name[64];
        sprintf(name, "/tmp/carry_many_mappings.%d.%d", getpid(), i);
        check(unlink(name) == 0);
    }
    return ok();
}
