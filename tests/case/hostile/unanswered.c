// An ordinary user with a file system of their own that does not answer: whoever reads the pages of its file waits for ever. In the
// ways in which a daemon might: as siginfo (queue PID), for the lock of a process's memory (lock), of one that polls its input (poll), and while
// a process executes a program, which does not go on before its files are closed (exec), or reads the program, while another thread asks what its
// children have used (usage NODE).
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/times.h>
#include <unistd.h>

#define FILE_NODE 2
static int device;

static void must(int good, const char *what) {
    if (!good) { perror(what); exit(1); }
}

static void put(const char *file, const char *text) {
    int fd = open(file, O_WRONLY);
    must(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), file);
    close(fd);
}

static void reply(uint64_t unique, const void *data, size_t length) {
    char out[4096];
    struct fuse_out_header head = { .len = sizeof head + length, .unique = unique };
    memcpy(out, &head, sizeof head);
    memcpy(out + sizeof head, data, length);
    must(write(device, out, head.len) >= 0 || errno == ENOENT, "answer");
}

static struct fuse_attr attr(uint64_t node) {
    return (struct fuse_attr) { .ino = node, .nlink = 1, .uid = getuid(), .gid = getgid(), .size = 4096,
        .mode = node == FILE_NODE ? S_IFREG | 0755 : S_IFDIR | 0755 };
}

// Answers what leads to the file, and no read of it; that it is closed only if `closes`.
static void serve(int closes) {
    static char in[1 << 20];
    for (;;) {
        if (read(device, in, sizeof in) <= 0) exit(0);
        struct fuse_in_header *head = (void *)in;
        switch (head->opcode) {
        case FUSE_INIT: {
            struct fuse_init_out out = { .major = 7, .minor = 31, .max_write = 4096, .max_readahead = 0 };
            reply(head->unique, &out, sizeof out);
            break;
        }
        case FUSE_LOOKUP: {
            struct fuse_entry_out out = { .nodeid = FILE_NODE, .entry_valid = 1000, .attr_valid = 1000, .attr = attr(FILE_NODE) };
            reply(head->unique, &out, sizeof out);
            break;
        }
        case FUSE_GETATTR: {
            struct fuse_attr_out out = { .attr_valid = 1000, .attr = attr(head->nodeid) };
            reply(head->unique, &out, sizeof out);
            break;
        }
        case FUSE_OPEN: {
            struct fuse_open_out out = { .fh = 1 };
            reply(head->unique, &out, sizeof out);
            break;
        }
        case FUSE_FLUSH: case FUSE_RELEASE:
            if (closes) reply(head->unique, 0, 0);
        }
    }
}

static void *look(void *page) {
    char byte;
    usleep(100000);
    return pread(open("/proc/self/mem", O_RDONLY), &byte, 1, (off_t)page) == 1 ? 0 : page;
}

static void *change(void *no) {
    usleep(200000);
    return mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? no : 0;
}

static void *execute(void *no) {
    execl("/tmp/file", "file", NULL);
    return no;
}

int main(int argc, char **argv) {
    char map[64], options[128];
    uid_t uid = getuid(); gid_t gid = getgid();
    if (!strcmp(argv[1], "usage")) {
        snprintf(options, sizeof options, "shoal run -n %s sh -c 'i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done'", argv[2]);
        must(system(options) == 0, options);
    }
    must(unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0, "unshare");
    put("/proc/self/setgroups", "deny");
    snprintf(map, sizeof map, "%d %d 1", uid, uid); put("/proc/self/uid_map", map);
    snprintf(map, sizeof map, "%d %d 1", gid, gid); put("/proc/self/gid_map", map);
    must((device = open(getenv("FUSE") ? getenv("FUSE") : "/dev/fuse", O_RDWR)) >= 0, "/dev/fuse");
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=%d,group_id=%d", device, uid, gid);
    must(mount("none", "/tmp", "fuse", MS_NOSUID | MS_NODEV, options) == 0, "mount");
    pid_t server = fork();
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); // what waits for it goes on then, and can end
        serve(strcmp(argv[1], "exec"));
    }
    close(device);
    char *page = mmap(0, 4096, PROT_READ, MAP_PRIVATE, open("/tmp/file", O_RDONLY), 0);
    must(page != MAP_FAILED, "mmap");
    if (!strcmp(argv[1], "queue"))
        must(syscall(SYS_rt_sigqueueinfo, atoi(argv[2]), SIGUSR1, page) == 0, "rt_sigqueueinfo");
    if (!strcmp(argv[1], "lock") || !strcmp(argv[1], "poll")) {
        // Reading the page by this way keeps the memory's lock for reading, and who waits to change it keeps all others out.
        pthread_t reader, changer;
        pthread_create(&reader, 0, look, page);
        pthread_create(&changer, 0, change, 0);
        usleep(400000);
        must(write(1, "ready\n", 6) == 6, "write");
    }
    if (!strcmp(argv[1], "usage")) {
        pthread_t thread;
        struct tms used;
        pthread_create(&thread, 0, execute, 0);
        usleep(300000);
        must(write(1, "ready\n", 6) == 6, "write");
        for (;;) { times(&used); usleep(10000); }
    }
    if (!strcmp(argv[1], "exec")) {
        must(open("/tmp/file", O_RDONLY | O_CLOEXEC) >= 0 && setsid() >= 0, "setsid");
        must(write(1, "ready\n", 6) == 6, "write");
        execlp("sleep", "sleep", "60", NULL);
    }
    struct pollfd input = { .fd = 0, .events = POLLIN };
    if (!strcmp(argv[1], "poll")) poll(&input, 1, -1);
    pause();
}
