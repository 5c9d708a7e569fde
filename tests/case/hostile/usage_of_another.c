// usage_of_another DIRECTORY NODE SETUID-COPY: waits for a child on NODE, and what the child has used is to be written to a page. When DIRECTORY/go is there,
// another thread executes the copy, which has a page at the same place: the number of the thread that waits is the copy's then. The copy (`probe`) writes
// DIRECTORY/up, and after DIRECTORY/look DIRECTORY/found: whether its page is whole.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static char *const page = (char *)0x2000000000;
static char **words;

static void must(int good, const char *what) {
    if (!good) { perror(what); exit(1); }
}

static char *in(const char *directory, const char *name) {
    char *path;
    must(asprintf(&path, "%s/%s", directory, name) > 0, name);
    return path;
}

static void say(const char *directory, const char *name, const char *text) {
    int fd = open(in(directory, name), O_WRONLY | O_CREAT, 0644);
    must(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), name);
    close(fd);
}

static void await(const char *directory, const char *name) {
    while (access(in(directory, name), F_OK) != 0) usleep(2000);
}

static int probe(const char *directory) {
    char user[16];
    sprintf(user, "%d", geteuid());
    say(directory, "up", user);
    await(directory, "look");
    int changed = 0;
    for (int i = 0; i < 4096; i++) changed |= page[i];
    say(directory, "found", changed ? "changed" : "whole");
    return 0;
}

static void *executes(void *none) {
    await(words[1], "go");
    execl(words[3], "usage_of_another", "probe", words[1], NULL);
    perror("execute the copy");
    exit(1);
    return none;
}

int main(int argc, char **argv) {
    void *got = mmap(page, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    must(got == page, "mmap");
    if (argc == 3 && strcmp(argv[1], "probe") == 0) return probe(argv[2]);
    must(argc == 4, "arguments");
    words = argv;
    pid_t child = fork();
    if (child == 0) {
        execlp("shoal", "shoal", "run", "-n", argv[2], "sh", "-c", "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done", NULL);
        _exit(1);
    }
    pthread_t thread;
    int status;
    must(pthread_create(&thread, NULL, executes, NULL) == 0, "pthread_create");
    must(wait4(child, &status, 0, (struct rusage *)page) == child && status == 0, "wait4");
    pthread_join(thread, NULL);
    return 1;
}
