/* Children on nodes, by one call and by a call for many; and the program itself moves. Argument 1 is how many nodes there are. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <signal.h>
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

static void one(int node)
{
    static int shared = 1;
    pid_t own = getpid(), child;
    int ends[2];
    /* What leads to others is not in the way, and is not there. */
    MUST(pipe(ends) == 0);
    child = bproc_rfork(node);
    if (child == 0) {
        char byte;
        MUST(bproc_currnode() == node && getppid() == own && getpid() != own);
        MUST(write(ends[1], "x", 1) == -1 && errno == EBADF);
        MUST(read(0, &byte, 1) == 0);
        shared = 2;
        printf("child on node %d\n", node);
        fflush(stdout);
        exit(7);
    }
    MUST(child > 0);
    MUST(ends_with(child) == 7 && shared == 1);
    MUST(write(ends[1], "x", 1) == 1);
    close(ends[0]);
    close(ends[1]);
}

static void killed(int node)
{
    pid_t child = bproc_rfork(node);
    if (child == 0)
        for (;;)
            pause();
    MUST(child > 0 && bproc_pidnode(child) == node);
    MUST(kill(child, SIGTERM) == 0 && ends_with(child) == -SIGTERM);
}

static void many(int nodes, int times)
{
    int where[MOST], pids[MOST], n = nodes * times, i, rank;
    pid_t own = getpid();
    for (i = 0; i < n; i++)
        where[i] = i % nodes;
    /* One that is not there costs its own place only. */
    where[n] = 9999;
    rank = bproc_vrfork(n + 1, where, pids);
    if (rank >= 0 && rank <= n) {
        MUST(bproc_currnode() == where[rank] && getppid() == own);
        exit(rank % 100);
    }
    MUST(rank == n + 1 && pids[n] == -BE_INVALIDNODE);
    for (i = 0; i < n; i++)
        MUST(pids[i] > 0 && ends_with(pids[i]) == i % 100);
}

static void with_descriptors(int node, const char *path)
{
    struct bproc_io_t io[3];
    struct sockaddr_in here = {.sin_family = AF_INET};
    socklen_t length = sizeof here;
    char text[32] = "";
    int told[2], listens = socket(AF_INET, SOCK_STREAM, 0), back;
    pid_t child;
    MUST(bind(listens, (struct sockaddr *)&here, sizeof here) == 0 && listen(listens, 5) == 0);
    MUST(getsockname(listens, (struct sockaddr *)&here, &length) == 0);
    memset(io, 0, sizeof io);
    io[0].fd = 5;
    io[0].type = BPROC_IO_SOCKET;
    io[0].flags = BPROC_IO_SEND_INFO;
    memcpy(&io[0].d.addr, &here, sizeof here);
    io[1].fd = 1;
    io[1].type = BPROC_IO_FILE;
    io[1].d.file.flags = O_WRONLY | O_CREAT | O_TRUNC;
    io[1].d.file.mode = 0644;
    strcpy(io[1].d.file.name, path);
    io[2].fd = 0;
    io[2].type = BPROC_IO_MEMFILE;
    io[2].d.mem.base = "from memory";
    io[2].d.mem.size = 11;
    child = bproc_rfork_io(node, io, 3);
    if (child == 0) {
        char read_text[32] = "";
        int got = read(0, read_text, sizeof read_text);
        if (got != 11 || memcmp(read_text, "from memory", 11) != 0 || fcntl(2, F_GETFD) != -1)
            _exit(1);
        _exit(write(5, "hello", 5) == 5 && write(1, "in a file\n", 10) == 10 ? 9 : 2);
    }
    MUST(child > 0);
    back = accept(listens, NULL, NULL);
    MUST(back >= 0 && read(back, told, sizeof told) == sizeof told && told[0] == child && told[1] == 5);
    MUST(read(back, text, sizeof text) == 5 && memcmp(text, "hello", 5) == 0);
    MUST(ends_with(child) == 9);
    close(back);
    close(listens);
    io[0].fd = -1;
    MUST(bproc_rfork_io(node, io, 3) == -1 && errno == EBADF);
    MUST(bproc_rfork_io(node, io, 17) == -1 && errno == EINVAL);
    MUST(bproc_rfork_io(node, NULL, 1) == -1 && errno == EFAULT);
}

int main(int argc, char **argv)
{
    int nodes = argc > 1 ? atoi(argv[1]) : 0, i;
    pid_t own = getpid(), child;
    for (i = 0; i < nodes; i++)
        one(i);
    killed(0);
    /* More than an ordinary user may have under way at a time. */
    many(nodes, 8);
    with_descriptors(0, argc > 2 ? argv[2] : "/tmp/bproc.file");
    MUST(bproc_rfork(9999) == -1 && errno == BE_INVALIDNODE);
    MUST(bproc_rfork(BPROC_NODE_SELF) == -1 && errno == BE_SAMENODE);
    MUST(bproc_vrfork(-1, &i, &i) == -1 && errno == EINVAL && bproc_vrfork(1, NULL, &i) == -1 && errno == EFAULT);
    MUST(_bproc_rfork(0, 8) == -1 && errno == EINVAL);
    MUST(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);

    /* It goes itself, and has children from there too. */
    MUST(bproc_move(0) == 0 && bproc_currnode() == 0 && getpid() == own);
    MUST(bproc_move(0) == -1 && errno == BE_SAMENODE);
    child = bproc_rfork(nodes > 1 ? 1 : BPROC_NODE_MASTER);
    if (child == 0)
        _exit(bproc_currnode() == (nodes > 1 ? 1 : -1) && getppid() == own ? 11 : 12);
    MUST(child > 0 && ends_with(child) == 11);
    puts("ok");
    return 0;
}
