// executes_while_copied DIRECTORY: has much memory. When DIRECTORY/go is there it executes itself (`second`), with other bytes at the same addresses, while its
// old memory stays that of a process which it has made, until DIRECTORY/end is there. After DIRECTORY/look the second says in DIRECTORY/found whether its
// memory is its own.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LENGTH (64UL << 20)
static char *const area = (char *)0x2000000000;
static char stack[65536] __attribute__((aligned(16)));
static char *directory;

static void must(int good, const char *what) {
    if (!good) { perror(what); exit(1); }
}

static char *in(const char *name) {
    char *path;
    must(asprintf(&path, "%s/%s", directory, name) > 0, name);
    return path;
}

static void say(const char *name, const char *text) {
    int fd = open(in(name), O_WRONLY | O_CREAT, 0644);
    must(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), name);
    close(fd);
}

static int await(void *name) {
    const char *path = in(name);
    while (access(path, F_OK) != 0) usleep(2000);
    return 0;
}

int main(int argc, char **argv) {
    int is_second = argc == 3 && !strcmp(argv[2], "second");
    must(argc == 2 || is_second, "arguments");
    directory = argv[1];
    int kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    must(mmap(area, LENGTH, PROT_READ | PROT_WRITE, kind, -1, 0) == area, "mmap");
    memset(area, is_second ? 'B' : 'A', LENGTH);
    if (!is_second) {
        say("first", "up");
        await("go");
        must(clone(await, stack + sizeof stack, CLONE_VM | CLONE_PARENT, "end") > 0, "clone");
        execl("/proc/self/exe", "executes_while_copied", directory, "second", NULL);
        must(0, "execute");
    }
    say("second", "up");
    await("look");
    unsigned long others = 0;
    for (unsigned long i = 0; i < LENGTH; i++) others += area[i] != 'B';
    char text[40];
    sprintf(text, "%lu bytes of another program", others);
    say("found", text);
    return 0;
}
