/* A file system that is one regular file, served by the program itself: for what the kernel does when its server does not answer. */
#ifndef FUSE_H
#define FUSE_H
#include "prog.h"
#include <linux/fuse.h>
#include <sys/mount.h>

MAYBE struct fuse_in_header *next_request(int device, char *buffer, size_t size)
{
    ssize_t n;
    do
        n = read(device, buffer, size);
    while (n < 0 && (errno == EINTR || errno == ENOENT));
    check(n >= (ssize_t)sizeof(struct fuse_in_header));
    return (struct fuse_in_header *)buffer;
}

MAYBE void answer(int device, uint64_t unique, const void *body, uint32_t length)
{
    char out[512];
    struct fuse_out_header head = {.len = sizeof head + length, .unique = unique};
    memcpy(out, &head, sizeof head);
    memcpy(out + sizeof head, body, length);
    check(write(device, out, head.len) == (ssize_t)head.len);
}

/* Mounts a file system that is one regular file on `at`; its device. */
MAYBE int mount_on(const char *at)
{
    int device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    check(device >= 0);
    char options[80];
    snprintf(options, sizeof options, "fd=%d,rootmode=100000,user_id=0,group_id=0", device);
    check(mount("odd", at, "fuse", MS_NOSUID | MS_NODEV, options) == 0);
    return device;
}

/* Answers what every mount and open asks; 0 for another request. */
MAYBE int answer_usual(int device, const struct fuse_in_header *head)
{
    if (head->opcode == FUSE_INIT) {
        struct fuse_init_out init = {.major = 7, .minor = 31, .max_write = 4096};
        answer(device, head->unique, &init, sizeof init);
    } else if (head->opcode == FUSE_GETATTR) {
        struct fuse_attr_out attr = {.attr = {.ino = 1, .mode = S_IFREG | 0600, .nlink = 1, .size = 1}};
        answer(device, head->unique, &attr, sizeof attr);
    } else if (head->opcode == FUSE_OPEN) {
        struct fuse_open_out opened = {.fh = 1};
        answer(device, head->unique, &opened, sizeof opened);
    } else {
        return 0;
    }
    return 1;
}

/* Answers what comes until a request of kind `last`, which is left to the caller: its number. */
MAYBE uint64_t serve_until(int device, uint32_t last)
{
    static char buffer[1 << 16];
    for (;;) {
        struct fuse_in_header *head = next_request(device, buffer, sizeof buffer);
        if (head->opcode == last)
            return head->unique;
        answer_usual(device, head);
    }
}

/* The number of a connection is the minor number of the file system's device. */
MAYBE void abort_connection(unsigned number)
{
    char path[64];
    snprintf(path, sizeof path, "/sys/fs/fuse/connections/%u/abort", number);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        check(mount("fusectl", "/sys/fs/fuse/connections", "fusectl", 0, NULL) == 0);
        fd = open(path, O_WRONLY | O_CLOEXEC);
    }
    check(fd >= 0 && write(fd, "1", 1) == 1);
    close(fd);
}

#endif
