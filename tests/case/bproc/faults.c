/* Every call with what it cannot use, by several threads at a time, in a signal handler, after fork(2), and with a list of 10,000 nodes: each says why it fails, or works, and none hangs.
 * Argument 1 is how many nodes there are. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <shoal.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/bproc.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUST(what) \
    do { \
        errno = 0; \
        if (!(what)) { \
            printf("line %d: %s: %d %s: %s\n", __LINE__, #what, errno, bproc_strerror(errno), shoal_error()); \
            fflush(stdout); \
            _exit(1); \
        } \
    } while (0)
/* The call fails, and says why in that number and in words. */
#define FAILS(number, call) MUST((call) == -1 && errno == (number) && shoal_error()[0] != 0)

enum { NONE = 4711, MANY = 10000, THREADS = 8, ROUNDS = 20 };
static char *const words[] = {"true", NULL};
static char *const nothing[] = {NULL};
static int count;

/* Each call gets so many seconds at most. */
static void begin(const char *what)
{
    fprintf(stderr, "%s\n", what);
    alarm(40);
}

static void nodes(void)
{
    struct bproc_node_set_t set = BPROC_EMPTY_NODESET, broken = {-5, -5, NULL}, other = BPROC_EMPTY_NODESET;
    struct bproc_node_info_t info;
    char text[256];
    int size = sizeof(struct sockaddr);
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    begin("nodes");
    FAILS(BE_INVALIDNODE, bproc_nodestatus(NONE, text, sizeof text));
    FAILS(EFAULT, bproc_nodestatus(0, NULL, 16));
    FAILS(EINVAL, bproc_nodestatus(0, text, -1));
    FAILS(BE_INVALIDNODE, bproc_nodeinfo(-77, &info));
    FAILS(EFAULT, bproc_nodeinfo(0, NULL));
    FAILS(EFAULT, bproc_nodeaddr(0, NULL, &size));
    FAILS(EFAULT, bproc_nodeaddr(0, (struct sockaddr *)text, NULL));
    FAILS(EFAULT, bproc_nodelist(NULL));
    FAILS(EBADF, bproc_nodelist_(NULL, -1));
    FAILS(EBADF, bproc_nodelist_(&set, 999));
    bproc_nodeset_free(&set);
    FAILS(EFAULT, bproc_getnodeattr(0, NULL, text, 8));
    FAILS(ENODATA, bproc_getnodeattr(0, "a", NULL, 8));
    FAILS(EINVAL, bproc_getnodeattr(0, "a", text, -8));
    FAILS(EFAULT, bproc_setnodeattr(0, NULL, text, 8));
    FAILS(EFAULT, bproc_setnodeattr(0, "a", NULL, 8));
    FAILS(EINVAL, bproc_setnodeattr(0, "a", text, -8));
    MUST(bproc_setnodeattr(0, text, text, 8) == -1 && bproc_setnodeattr(0, "a", text, 256) == -1);
    FAILS(EFAULT, bproc_nodesetstatus(0, NULL));
    FAILS(EINVAL, bproc_nodesetstatus(0, text));
    FAILS(EINVAL, bproc_nodesetstatus(0, ""));
    FAILS(BE_INVALIDNODE, bproc_nodesetstatus(NONE, "up"));
    FAILS(BE_INVALIDNODE, bproc_chmod(NONE, 0111));
    FAILS(BE_INVALIDNODE, bproc_chown(NONE, 0));
    FAILS(BE_INVALIDNODE, bproc_chgrp(NONE, 0));
    FAILS(BE_INVALIDNODE, bproc_access(NONE, BPROC_X_OK));
    FAILS(BE_INVALIDNODE, bproc_nodereboot(NONE));
    FAILS(BE_INVALIDNODE, bproc_nodehalt_async(NONE));
    FAILS(EFAULT, bproc_nodechroot(0, NULL));
    MUST(bproc_nodereconnect(0, NULL, 0, NULL, 0) == -1 && errno != 0);
    FAILS(EFAULT, bproc_nodeset_init(NULL, 1));
    FAILS(EINVAL, bproc_nodeset_init(&set, -1));
    FAILS(ENOMEM, bproc_nodeset_init(&set, 0x7fffffff));
    FAILS(EFAULT, bproc_nodeset_grow(NULL, 1));
    FAILS(EINVAL, bproc_nodeset_add(&broken, &info));
    broken.size = 0;
    MUST(bproc_nodeset_add(&broken, &info) == 0 && broken.size == 1);
    bproc_nodeset_free(&broken);
    bproc_nodeset_free(NULL);
    FAILS(EFAULT, bproc_nodeset_add(&set, NULL));
    FAILS(EFAULT, bproc_nodeset_append(&set, NULL));
    FAILS(EFAULT, bproc_nodefilter(&set, NULL, "all"));
    FAILS(EFAULT, bproc_nodefilter(&set, &other, NULL));
    FAILS(EFAULT, bproc_nodespec(NULL, "all"));
    FAILS(EFAULT, bproc_nodespec(&set, NULL));
    MUST(bproc_nodespec(&set, "9-1,,x y") == -1 && (errno == EINVAL || errno == BE_INVALIDNODE));
    MUST(bproc_strerror(-2147483647 - 1) != NULL && bproc_version(NULL) == -1 && errno == EFAULT);
}

static void processes(void)
{
    struct bproc_proc_info_t *list;
    struct bproc_io_t io = {.fd = 1}, high = {.fd = 1 << 30}, odd = {.fd = 1, .type = 9}, flags = {.fd = 1, .flags = 64};
    struct bproc_io_t family = {.fd = 1, .type = BPROC_IO_SOCKET}, memory = {.fd = 1, .type = BPROC_IO_MEMFILE};
    int pids[2], list_of[2] = {0, NONE}, closed[3] = {0, 1, 999}, status;
    begin("processes");
    memset(io.d.file.name, 'x', sizeof io.d.file.name);
    memory.d.mem.size = 8;
    FAILS(BE_INVALIDPROC, bproc_pidnode(0));
    FAILS(BE_INVALIDPROC, bproc_pidnode(-1));
    FAILS(EFAULT, bproc_proclist(0, NULL));
    FAILS(BE_INVALIDNODE, bproc_proclist(NONE, &list));
    FAILS(BE_INVALIDNODE, bproc_move(NONE));
    FAILS(BE_SAMENODE, bproc_move(bproc_currnode()));
    FAILS(EINVAL, _bproc_move(0, 64));
    FAILS(BE_INVALIDNODE, bproc_rfork(NONE));
    FAILS(EINVAL, _bproc_rfork(0, -1));
    FAILS(EFAULT, bproc_rfork_io(0, NULL, 1));
    FAILS(EINVAL, bproc_rfork_io(0, &io, 17));
    FAILS(EINVAL, bproc_rfork_io(0, &io, -2));
    FAILS(ENAMETOOLONG, bproc_rfork_io(0, &io, 1));
    FAILS(EBADF, bproc_rfork_io(0, &high, 1));
    FAILS(EINVAL, bproc_rfork_io(0, &odd, 1));
    FAILS(EINVAL, bproc_rfork_io(0, &flags, 1));
    FAILS(EAFNOSUPPORT, bproc_rfork_io(0, &family, 1));
    FAILS(EFAULT, bproc_rfork_io(0, &memory, 1));
    FAILS(EBADF, shoal_rfork(0, closed));
    FAILS(EINVAL, bproc_vrfork(-1, list_of, pids));
    FAILS(EFAULT, bproc_vrfork(2, NULL, pids));
    FAILS(EFAULT, bproc_vrfork(2, list_of, NULL));
    MUST(bproc_vrfork(0, NULL, NULL) == 0);
    FAILS(EFAULT, bproc_rexec(0, NULL, words, nothing));
    FAILS(EFAULT, bproc_rexec(0, "true", NULL, nothing));
    FAILS(BE_INVALIDNODE, bproc_rexec(NONE, "true", words, nothing));
    FAILS(BE_INVALIDNODE, bproc_execmove(NONE, "true", words, NULL));
    FAILS(EFAULT, bproc_execve(NULL, words, nothing));
    FAILS(EFAULT, bproc_vexecmove(1, list_of, pids, NULL, words, nothing));
    FAILS(EBADF, bproc_dump(999, 0));
    FAILS(EBADF, bproc_undump(999));
    FAILS(EBADF, bproc_execdump(999, 0, "/bin/true", words, nothing));
    FAILS(EINVAL, bproc_execdump(1, 64, "/bin/true", words, nothing));
    FAILS(EFAULT, bproc_execdump(1, 0, NULL, words, nothing));
    FAILS(ENOENT, bproc_execdump(1, 0, "/bin/there/is/none", words, nothing));
    FAILS(EFAULT, bproc_libadd(NULL));
    FAILS(EFAULT, bproc_libdel(NULL));
    FAILS(EFAULT, bproc_liblist(NULL));
    FAILS(EINVAL, shoal_move(-1, 0));
    FAILS(EINVAL, shoal_move(0, -2));
    status = bproc_vrfork(2, list_of, pids);
    if (status < 2)
        _exit(status == 0 ? 3 : 4);
    MUST(status == 2 && pids[1] == -BE_INVALIDNODE && waitpid(pids[0], &status, 0) == pids[0]);
    MUST(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    MUST(waitpid(-1, &status, 0) == -1 && errno == ECHILD);
}

/* Calls that ask, and a child that goes. */
static void *asks(void *at)
{
    for (int i = 0; i < ROUNDS; i++) {
        struct bproc_node_set_t set = BPROC_EMPTY_NODESET;
        MUST(bproc_numnodes() == count && bproc_currnode() == BPROC_NODE_MASTER);
        MUST(bproc_nodelist(&set) == count && set.size == count);
        bproc_nodeset_free(&set);
        FAILS(BE_INVALIDNODE, bproc_move(NONE));
        MUST(bproc_libadd("libx.so") == 0);
    }
    for (int i = 0; at != NULL && i < 2; i++) {
        int status, pid = bproc_rfork(*(int *)at % count);
        if (pid == 0)
            _exit(9);
        MUST(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 9);
    }
    return NULL;
}

static void threads(void)
{
    pthread_t all[THREADS];
    int numbers[THREADS];
    begin("threads");
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        MUST(pthread_create(&all[i], NULL, asks, &numbers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        MUST(pthread_join(all[i], NULL) == 0);
}

static volatile sig_atomic_t handled, refused;

/* Works, or says EDEADLK where it has interrupted a call of the same thread. */
static void handler(int sig)
{
    int before = errno, done = bproc_numnodes();
    (void)sig;
    if (done == count)
        handled++;
    else if (done == -1 && errno == EDEADLK)
        refused++;
    else
        _exit(5);
    errno = before;
}

static void handlers(void)
{
    struct sigaction act = {.sa_handler = handler, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 700}, {0, 700}}, never = {{0, 0}, {0, 0}};
    int status, pid;
    begin("handlers");
    sigaction(SIGVTALRM, &act, NULL);
    MUST(raise(SIGVTALRM) == 0 && handled == 1);
    setitimer(ITIMER_VIRTUAL, &often, NULL);
    while (refused + handled < 20)
        MUST(bproc_numnodes() == count);
    pid = bproc_rfork(0);
    if (pid == 0)
        _exit(6);
    setitimer(ITIMER_VIRTUAL, &never, NULL);
    MUST(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 6);
}

static void after_fork(void)
{
    int status, pid, notifier;
    begin("after fork");
    MUST((notifier = bproc_notifier()) >= 0);
    pid = fork();
    if (pid == 0) {
        int child = bproc_rfork(0);
        if (child == 0)
            _exit(7);
        asks(NULL);
        MUST(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
        _exit(8);
    }
    MUST(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 8);
    close(notifier);
}

/* All but two are no nodes. */
static void many(void)
{
    static int list[MANY], pids[MANY];
    int status, done, good = 0;
    begin("many");
    for (int i = 0; i < MANY; i++)
        list[i] = NONE + i;
    list[17] = 0;
    list[MANY - 1] = count - 1;
    done = bproc_vrfork(MANY, list, pids);
    if (done >= 0 && done < MANY)
        _exit(done == 17 || done == MANY - 1 ? 0 : 1);
    MUST(done == MANY);
    for (int i = 0; i < MANY; i++) {
        good += pids[i] > 0;
        MUST(pids[i] > 0 ? waitpid(pids[i], &status, 0) == pids[i] && status == 0 : pids[i] == -BE_INVALIDNODE);
    }
    MUST(good == 2);
    MUST(bproc_vexecmove(MANY, list, pids, "/bin/true", words, nothing) == MANY);
    for (int i = 0; i < MANY; i++)
        MUST(pids[i] > 0 ? waitpid(pids[i], &status, 0) == pids[i] && status == 0 : pids[i] == -BE_INVALIDNODE);
}

int main(int argc, char **argv)
{
    count = argc > 1 ? atoi(argv[1]) : 0;
    nodes();
    processes();
    threads();
    handlers();
    after_fork();
    many();
    printf("ok\n");
    return 0;
}
