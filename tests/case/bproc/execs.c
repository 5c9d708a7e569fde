/* Programs on nodes, in place of the caller and as its children. Argument 1 is how many nodes there are, argument 2 a directory to write to. */
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
#define MOST 128

static int ends_with(pid_t pid)
{
    int status;
    MUST(waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int main(int argc, char **argv)
{
    int nodes = argc > 1 ? atoi(argv[1]) : 0, where[MOST], pids[MOST], i, all;
    const char *directory = argc > 2 ? argv[2] : "/tmp";
    char *words[] = {"the-name", "-c", "echo $0 $MARK $$ on $(hostname); exit 5", NULL};
    char *marks[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "MARK=marked", NULL};
    struct bproc_io_t io;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0) {
        bproc_rexec(0, "/bin/sh", words, marks);
        _exit(99);
    }
    MUST(ends_with(child) == 5);
    for (i = 0; i < nodes; i++)
        where[i] = i;
    where[nodes] = 9999;
    all = bproc_vexecmove(nodes + 1, where, pids, "/bin/sh", words, marks);
    MUST(all == nodes + 1 && pids[nodes] == -BE_INVALIDNODE);
    for (i = 0; i < nodes; i++)
        MUST(pids[i] > 0 && ends_with(pids[i]) == 5);

    /* Each with a file of its own as output. */
    memset(&io, 0, sizeof io);
    io.fd = 1;
    io.type = BPROC_IO_FILE;
    io.d.file.flags = O_WRONLY | O_CREAT | O_APPEND;
    io.d.file.mode = 0644;
    snprintf(io.d.file.name, sizeof io.d.file.name, "%s/bproc.out", directory);
    all = bproc_vexecmove_io(nodes, where, pids, &io, 1, "/bin/sh", words, marks);
    MUST(all == nodes);
    for (i = 0; i < nodes; i++)
        MUST(pids[i] > 0 && ends_with(pids[i]) == 5);
    all = bproc_vexecmove_io(1, where, pids, &io, 1, "/nonexistent", words, marks);
    MUST(all == 1 && pids[0] > 0 && ends_with(pids[0]) == 126);

    MUST(bproc_rexec(9999, "/bin/sh", words, marks) == -1 && errno == BE_INVALIDNODE);
    MUST(bproc_rexec(0, NULL, words, marks) == -1 && errno == EFAULT);
    MUST(bproc_execve("/nonexistent", words, marks) == -1 && errno == ENOENT);
    fflush(stdout);
    child = fork();
    if (child == 0) {
        bproc_execmove(nodes - 1, "/bin/sh", words, marks);
        _exit(99);
    }
    MUST(ends_with(child) == 5);
    puts("ok");
    return 0;
}
