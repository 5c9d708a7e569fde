/* A process that executes a program closes its close-on-exec files between the change of its memory and the program's start. Who reads its
 * /proc/PID/stat meanwhile waits until then on some kernels (6.18); /proc/PID/status, getpgid and getsid never wait. A server of such a file
 * that reads stat waits for itself. */
#include "prog.h"
#include <linux/fuse.h>
#include <sys/mount.h>

static struct fuse_in_header *next_request(int device, char *buffer, size_t size)
{
    ssize_t n;
    do
        n = read(device, buffer, size);
    while (n < 0 && (errno == EINTR || errno == ENOENT));
    check(n >= (ssize_t)sizeof(struct fuse_in_header));
    return (struct fuse_in_header *)buffer;
}

static void answer(int device, uint64_t unique, const void *body, uint32_t length)
{
    char out[512];
    struct fuse_out_header head = {.len = sizeof head + length, .unique = unique};
    memcpy(out, &head, sizeof head);
    memcpy(out + sizeof head, body, length);
    check(write(device, out, head.len) == (ssize_t)head.len);
}

/* Mounts a file system that is one regular file on `at`; its device. */
static int mount_on(const char *at)
{
    int device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    check(device >= 0);
    char options[80];
    snprintf(options, sizeof options, "fd=%d,rootmode=100000,user_id=0,group_id=0", device);
    check(mount("odd", at, "fuse", MS_NOSUID | MS_NODEV, options) == 0);
    return device;
}

/* Answers what comes until `last`, which is left to the caller: its number. */
static uint64_t serve_until(int device, uint32_t last)
{
    static char buffer[1 << 16];
    for (;;) {
        struct fuse_in_header *head = next_request(device, buffer, sizeof buffer);
        if (head->opcode == last)
            return head->unique;
        if (head->opcode == FUSE_INIT) {
            struct fuse_init_out init = {.major = 7, .minor = 31, .max_write = 4096};
            answer(device, head->unique, &init, sizeof init);
        } else if (head->opcode == FUSE_GETATTR) {
            struct fuse_attr_out attr = {.attr = {.ino = 1, .mode = S_IFREG | 0600, .nlink = 1}};
            answer(device, head->unique, &attr, sizeof attr);
        } else if (head->opcode == FUSE_OPEN) {
            struct fuse_open_out opened = {.fh = 1};
            answer(device, head->unique, &opened, sizeof opened);
        }
    }
}

static int reads(const char *file, pid_t pid)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);
    close(fd);
    return n > 0;
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    char at[] = "/tmp/odd_stat_exec.XXXXXX";
    check(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    int file = mkstemp(at);
    check(file >= 0);
    int device = mount_on(at);
    pid_t child = fork_child();
    if (child == 0) {
        close(device);
        check(open(at, O_RDONLY | O_CLOEXEC) >= 0);
        execl("/bin/sh", "sh", "-c", "exit 7", NULL);
        check(!"executed");
    }
    uint64_t flush = serve_until(device, FUSE_FLUSH);
    check(reads("status", child) && getpgid(child) == getpgrp() && getsid(child) == getsid(0));
    pid_t reader = fork_child();
    if (reader == 0)
        _exit(reads("stat", child) ? 3 : 4);
    /* Answered or not, by the kernel; but it gets there. */
    struct timespec bit = {.tv_nsec = 100 * 1000 * 1000};
    nanosleep(&bit, NULL);
    answer(device, flush, NULL, 0);
    check(exited(wait_status(reader), 3));
    check(exited(wait_status(child), 7));
    umount2(at, MNT_DETACH);
    unlink(at);
    return ok();
}
