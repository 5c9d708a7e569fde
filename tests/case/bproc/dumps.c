/* Writes itself into the file that argument 1 names, and goes on; with "undump" before the name it becomes what is in the file; with "exec" it writes a program that has not begun. */
#include <shoal.h>
#include <sys/bproc.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* With a signal blocked by which debuggers stop programs, and an argument that says what the program is to do. */
static int exec(int fd)
{
    char *words[] = {"sh", "-c", "echo begun $0 $X; exit 5", "word", NULL}, *environment[] = {"X=y", NULL};
    sigset_t trap;
    sigemptyset(&trap);
    sigaddset(&trap, SIGTRAP);
    sigprocmask(SIG_BLOCK, &trap, NULL);
    if (bproc_execdump(fd, 0, "/there/is/none", words, environment) != -1 || errno != ENOENT)
        return 8;
    bproc_execdump(fd, 0, "/bin/sh", words, environment);
    printf("execdump: %s\n", shoal_error());
    return 9;
}

int main(int argc, char **argv)
{
    int fd, done, count = 41, length;
    char *list;
    if (argc == 3 && strcmp(argv[1], "exec") == 0)
        return exec(open(argv[2], O_RDWR | O_CREAT | O_TRUNC, 0600));
    if (argc == 3) {
        fd = open(argv[2], O_RDONLY);
        bproc_undump(fd);
        printf("undump: %s\n", shoal_error());
        return 1;
    }
    fd = open(argv[argc - 1], O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || bproc_dump(-1, 0) != -1 || errno != EBADF || bproc_dump(fd, 8) != -1 || errno != EINVAL)
        return 2;
    if (bproc_libadd("libm.so.6") || bproc_libadd("libc.so.6") || bproc_libdel("libm.so.6"))
        return 3;
    if (bproc_libdel("libm.so.6") != -1 || errno != ENOENT || (length = bproc_liblist(&list)) != 10 || strcmp(list, "libc.so.6") != 0)
        return 4;
    free(list);
    if (bproc_libclear() || bproc_liblist(&list) != 0)
        return 5;
    free(list);
    count++;
    done = bproc_dump(fd, BPROC_DUMP_ALL);
    printf(done < 0 ? "%d %d %s\n" : "%d %d\n", done, count, shoal_error());
    fflush(stdout);
    return done == 1 ? 6 : done == 0 ? 0 : 7;
}
