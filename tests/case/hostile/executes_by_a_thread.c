// executes_by_a_thread FILE N: adds N to FILE and executes itself with N + 1, by a thread that is neither the first nor the last; ends with 7 when there is FILE.end.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char *file, number[24];

static void *waits(void *argument) {
    for (;;) pause();
    return argument;
}

static void *executes(void *argument) {
    execl("/proc/self/exe", "executes_by_a_thread", file, number, NULL);
    _exit(8);
    return argument;
}

int main(int argc, char **argv) {
    if (argc != 3) return 99;
    file = argv[1];
    char end[4096];
    snprintf(end, sizeof end, "%s.end", file);
    int fd = open(file, O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (fd < 0 || dprintf(fd, "%s\n", argv[2]) < 0) return 9;
    close(fd);
    if (access(end, F_OK) == 0) return 7;
    snprintf(number, sizeof number, "%ld", atol(argv[2]) + 1);
    pthread_t thread;
    if (pthread_create(&thread, NULL, waits, NULL) || pthread_create(&thread, NULL, executes, NULL)) return 10;
    waits(NULL);
}
