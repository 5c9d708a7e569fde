/* A process that executes a program closes its close-on-exec files between the change of its memory and the program's start. Who reads its
 * /proc/PID/stat meanwhile waits until then on some kernels (6.18); /proc/PID/status, getpgid and getsid never wait. A server of such a file
 * that reads stat waits for itself. */
#include "fuse.h"

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
