/* Files as programs use them: files WHAT PATH TIMES prints how many milliseconds all of it took. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;
static char room[1 << 20];

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static void fail(const char *what)
{
    perror(what);
    puts("NaN");
    exit(1);
}

static void look(const char *path)
{
    struct stat st;
    if (stat(path, &st))
        fail(path);
}

static void read_whole(const char *path)
{
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        fail(path);
    while (read(fd, room, sizeof room) > 0)
        ;
    close(fd);
}

static void run(const char *path)
{
    char *argv[] = {(char *)path, NULL};
    pid_t pid;
    int status;
    if (posix_spawn(&pid, path, NULL, NULL, argv, environ) || waitpid(pid, &status, 0) < 0 || status)
        fail(path);
}

/* For writing, and closed again. */
static void write_open(const char *path)
{
    int fd = open(path, O_WRONLY);
    if (fd < 0)
        fail(path);
    close(fd);
}

static void make(const char *directory, long number)
{
    char name[4096];
    snprintf(name, sizeof name, "%s/%ld", directory, number);
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0644);
    if (fd < 0 || write(fd, room, 100) != 100 || close(fd))
        fail(name);
}

/* As ls -l does. */
static void list(const char *directory)
{
    DIR *d = opendir(directory);
    if (!d)
        fail(directory);
    struct dirent *e;
    struct stat st;
    while ((e = readdir(d)))
        if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW))
            fail(e->d_name);
    closedir(d);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    const char *what = argv[1], *path = argv[2];
    long times = atol(argv[3]);
    double start = now();
    for (long i = 0; i < times; i++) {
        if (!strcmp(what, "stat"))
            look(path);
        else if (!strcmp(what, "read"))
            read_whole(path);
        else if (!strcmp(what, "exec"))
            run(path);
        else if (!strcmp(what, "write"))
            write_open(path);
        else if (!strcmp(what, "make"))
            make(path, i);
        else if (!strcmp(what, "list"))
            list(path);
        else
            return 2;
    }
    printf("%.4f\n", now() - start);
    return 0;
}
