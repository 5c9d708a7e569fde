/* A FUSE server that is killed while a thread of it tells the kernel what is out of date: the notice waits for whoever waits for an answer of this
 * server (linux: fuse_reverse_inval_inode, invalidate_inode_pages2_range for a page that is being read; fuse_reverse_inval_entry for a directory
 * in which a name is looked up). The thread keeps the descriptors of its process, so the device is never let go of and nobody is told that there
 * is no server: both wait for ever, and SIGKILL ends neither, until the connection is aborted. If it has descriptors of its own, and in them
 * nothing but another device of the connection (FUSE_DEV_IOC_CLONE), what the server had read is answered at its end (fuse_dev_release), and
 * whoever is killed ends. */
#include "fuse.h"
#include <sys/ioctl.h>
#include <sys/mman.h>

struct shared {
    pid_t tid;
    int alone;
};
static struct shared *shared;
static int device;

static void *notices(void *unused)
{
    struct fuse_notify_inval_inode_out what = {.ino = 1};
    struct {
        struct fuse_out_header head;
        struct fuse_notify_inval_inode_out what;
    } notice = {{.len = sizeof notice, .error = FUSE_NOTIFY_INVAL_INODE}, what};
    int own = device;
    if (shared->alone) {
        check(unshare(CLONE_FILES) == 0);
        uint32_t of = (uint32_t)device;
        own = open("/dev/fuse", O_RDWR | O_CLOEXEC);
        check(own >= 0 && ioctl(own, FUSE_DEV_IOC_CLONE, &of) == 0 && close(device) == 0);
    }
    shared->tid = gettid();
    (void)!write(own, &notice, sizeof notice);
    return unused;
}

/* Answers what comes until somebody reads, and never that; tells the kernel meanwhile that what it reads is out of date. */
static void serve(const char *at, int ready)
{
    pthread_t other;
    device = mount_on(at);
    say(ready, 'm');
    serve_until(device, FUSE_READ);
    check(pthread_create(&other, NULL, notices, NULL) == 0);
    pause_forever();
}

static void read_of(const char *at)
{
    char byte;
    int file = open(at, O_RDONLY);
    check(file >= 0 && read(file, &byte, 1) == 1);
    _exit(1);
}

static int waits(pid_t pid, pid_t tid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", pid, tid);
    int file = open(path, O_RDONLY);
    ssize_t got = file < 0 ? 0 : read(file, text, sizeof text - 1);
    close(file);
    text[got < 0 ? 0 : got] = 0;
    char *close_paren = strrchr(text, ')');
    return close_paren && close_paren[2] == 'D';
}

static void one(const char *at, int alone)
{
    int ready[2];
    shared->tid = 0;
    shared->alone = alone;
    check(pipe(ready) == 0);
    pid_t server = fork_child();
    if (server == 0)
        serve(at, ready[1]);
    check(hear(ready[0]) == 'm');
    pid_t reader = fork_child();
    if (reader == 0)
        read_of(at);
    until(shared->tid && waits(server, shared->tid));
    struct statx st = {0};
    check(statx(AT_FDCWD, at, AT_STATX_DONT_SYNC, 0, &st) == 0);
    check(kill(server, SIGKILL) == 0 && kill(reader, SIGKILL) == 0);
    if (!alone) {
        struct timespec bit = {.tv_nsec = 300 * 1000 * 1000};
        nanosleep(&bit, NULL);
        int status;
        pid_t early = waitpid(-1, &status, WNOHANG);
        abort_connection(st.stx_dev_minor);
        check(early == 0);
    }
    check(killed(wait_status(server), SIGKILL));
    check(killed(wait_status(reader), SIGKILL));
    check(umount2(at, MNT_DETACH) == 0);
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    char at[] = "/tmp/odd_notice_waits.XXXXXX";
    /* The mount is in a namespace of our own and needs no unmounting. */
    check(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    int file = mkstemp(at);
    check(file >= 0);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(shared != MAP_FAILED);
    one(at, 0);
    one(at, 1);
    unlink(at);
    return ok();
}
