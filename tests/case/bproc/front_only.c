/* Programs that only the front end has, on a node. Argument 1 is the program, which prints what it was given and where it runs, argument 2 a directory of both. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <shoal.h>
#include <sys/bproc.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUST(what) \
    do { \
        if (!(what)) { \
            printf("line %d: %s: %s: %s\n", __LINE__, #what, bproc_strerror(errno), shoal_error()); \
            exit(1); \
        } \
    } while (0)
#define NODES 2

static int ends_with(pid_t pid)
{
    int status;
    MUST(waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int main(int argc, char **argv)
{
    char *program = argc > 2 ? argv[1] : "", *directory = argc > 2 ? argv[2] : "";
    char *words[] = {"given", "7", NULL}, *marks[] = {"PATH=/usr/bin:/bin", NULL};
    int where[NODES] = {0, 1}, pids[NODES], i;
    struct bproc_io_t io;
    pid_t child;

    fflush(stdout);
    if ((child = fork()) == 0) {
        bproc_execmove(1, program, words, marks);
        printf("execmove: %s\n", shoal_error());
        exit(99);
    }
    MUST(ends_with(child) == 7);
    /* It is the node's file that is wanted, and there is none. */
    if ((child = fork()) == 0) {
        bproc_rexec(1, program, words, marks);
        _exit(99);
    }
    MUST(ends_with(child) == 127);
    MUST(bproc_vexecmove(NODES, where, pids, program, words, marks) == NODES);
    for (i = 0; i < NODES; i++)
        MUST(pids[i] > 0 && ends_with(pids[i]) == 7);

    memset(&io, 0, sizeof io);
    io.fd = 1;
    io.type = BPROC_IO_FILE;
    io.d.file.flags = O_WRONLY | O_CREAT | O_APPEND;
    io.d.file.mode = 0644;
    snprintf(io.d.file.name, sizeof io.d.file.name, "%s/out", directory);
    MUST(bproc_vexecmove_io(NODES, where, pids, &io, 1, program, words, marks) == NODES);
    for (i = 0; i < NODES; i++)
        MUST(pids[i] > 0 && ends_with(pids[i]) == 7);
    if ((child = fork()) == 0) {
        bproc_execmove_io(0, &io, 1, program, words, marks);
        _exit(99);
    }
    MUST(ends_with(child) == 7);

    /* In a process that has moved: from the front end, to where it is. */
    child = bproc_rfork(1);
    if (child == 0) {
        bproc_execve(program, words, marks);
        printf("execve: %s\n", shoal_error());
        fflush(stdout);
        _exit(98);
    }
    MUST(child > 0 && ends_with(child) == 7);
    puts("ok");
    return 0;
}
