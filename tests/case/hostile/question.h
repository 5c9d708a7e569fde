// A question to the daemon as bytes, for whoever sends it otherwise than `shoal run` would.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static void must(int good, const char *what) {
    if (!good) { perror(what); exit(1); }
}

// A socket that is bound there, or joined to whoever is.
static int at(const char *path, int listens) {
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    must(fd >= 0, "socket");
    must((listens ? bind : connect)(fd, (struct sockaddr *)&address, sizeof address) == 0, path);
    must(!listens || listen(fd, 1) == 0, "listen");
    return fd;
}

// `shoal run` says nothing to a daemon of ours with the right that its file gives it. As root of a namespace of our own we have that right ourselves there.
static void be_root_here(void) {
    char map[40];
    int length = snprintf(map, sizeof map, "0 %d 1", geteuid());
    must(unshare(CLONE_NEWUSER) == 0, "unshare");
    int fd = open("/proc/self/uid_map", O_WRONLY);
    must(fd >= 0 && write(fd, map, length) == length, "uid_map");
    close(fd);
}

// What this `shoal run` would say to the daemon.
static size_t question(const char *directory, char **argv, unsigned char *ask, size_t most) {
    char own[100];
    snprintf(own, sizeof own, "%s/own", directory);
    int listener = at(own, 1);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("SHOAL_SOCKET", own, 1);
        be_root_here();
        must(freopen("/dev/null", "w", stderr) != NULL, "/dev/null");
        execvp(argv[0], argv);
        _exit(1);
    }
    int from = accept(listener, NULL, NULL);
    size_t have = 0, whole = 4;
    while (have < whole) {
        ssize_t got = read(from, ask + have, most - have);
        must(got > 0, "read the question");
        have += got;
        if (have >= 4) whole = 4 + ((size_t)ask[0] << 24 | ask[1] << 16 | ask[2] << 8 | ask[3]);
        must(whole <= most, "a question of that length");
    }
    close(from);
    waitpid(pid, NULL, 0);
    return have;
}
