/* Floods the daemons of this machine, as one user may: floods WHAT ARGUMENT…, until it is killed.
 *
 *   asks COUNT HEX        COUNT connections to the local socket; frames of the body HEX on each without end, answers read
 *   unread COUNT HEX      the same, answers not read; a connection that the daemon closes is opened again
 *   connects COUNT        COUNT processes that open a connection and close it again
 *   asking COUNT HEX      the same, with one frame before the connection is closed
 *   halves COUNT          COUNT connections with half a frame each, which stay open
 *   large COUNT           COUNT connections with frames of 4 MiB that are no question
 *   shakes COUNT IP PORT [HEX]  COUNT processes that open a connection to a daemon's port and send 48 bytes at random, or HEX, as the first
 *                         message of a handshake
 *   silent COUNT IP PORT  the same, and send nothing
 *   channels COUNT IP PORT  the same, and name a channel that nobody waits for
 *   reads COUNT PATH…     COUNT processes that read these files again and again
 *   spins COUNT           COUNT processes that do nothing but compute
 *   kills COUNT PID       COUNT processes that call kill(PID, 0)
 *
 * With COUNTS=FILE in the environment, asks writes the number of answers, which all have one size, into FILE.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MANY 4096
static unsigned char out[1 << 16], in[1 << 16];
static size_t out_size, frame_size;
static struct sockaddr_in port;

static int local(void) {
    struct sockaddr_un to = {.sun_family = AF_UNIX, .sun_path = "/run/shoal/shoal.sock"};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0) return fd;
    close(fd);
    return -1;
}

/* Whole frames only, as many as fit. */
static void frames(const char *hex) {
    unsigned char one[256] = {0};
    size_t size = strlen(hex) / 2;
    for (size_t i = 0; i < size; i++) sscanf(hex + 2 * i, "%2hhx", &one[4 + i]);
    one[3] = (unsigned char)size;
    frame_size = size + 4;
    while (out_size + frame_size <= sizeof out) {
        memcpy(out + out_size, one, frame_size);
        out_size += frame_size;
    }
}

static void counted(const unsigned char *bytes, ssize_t size) {
    static int file = -1;
    static unsigned long long all;
    static unsigned each;
    char text[32];
    if (file < 0 && (file = open(getenv("COUNTS"), O_CREAT | O_WRONLY, 0644)) < 0) exit(3);
    if (!each) each = 4 + (bytes[2] << 8 | bytes[3]);
    all += size;
    int length = snprintf(text, sizeof text, "%020llu\n", all / each);
    if (pwrite(file, text, length, 0) != length) exit(3);
}

/* `at`: how much of `out` each connection has been sent. */
static void stream(int count, int reads, const unsigned char *bytes, size_t size) {
    static struct pollfd polled[MANY];
    static size_t at[MANY];
    for (int i = 0; i < count; i++) polled[i].fd = -1;
    for (;;) {
        for (int i = 0; i < count; i++) {
            if (polled[i].fd >= 0) continue;
            polled[i].fd = local();
            if (polled[i].fd < 0) { usleep(1000); continue; }
            fcntl(polled[i].fd, F_SETFL, O_NONBLOCK);
            polled[i].events = POLLOUT | (reads ? POLLIN : 0);
            at[i] = 0;
        }
        poll(polled, count, 1000);
        for (int i = 0; i < count; i++) {
            if (polled[i].fd < 0) continue;
            int over = 0;
            if (polled[i].revents & POLLIN) {
                ssize_t got = read(polled[i].fd, in, sizeof in);
                over = got == 0;
                if (got > 3 && getenv("COUNTS")) counted(in, got);
            }
            if (polled[i].revents & POLLOUT) {
                ssize_t sent = send(polled[i].fd, bytes + at[i], size - at[i], MSG_NOSIGNAL);
                if (sent > 0) at[i] = (at[i] + sent) % size;
                else over |= errno != EAGAIN;
            }
            if (over || polled[i].revents & (POLLHUP | POLLERR)) { close(polled[i].fd); polled[i].fd = -1; }
        }
    }
}

static void connects(int asks) {
    for (;;) {
        int fd = local();
        if (fd < 0) { usleep(100); continue; }
        if (asks && send(fd, out, frame_size, MSG_NOSIGNAL) > 0) while (read(fd, in, sizeof in) < 0 && errno == EINTR);
        close(fd);
    }
}

/* Those that stay open are closed when there are 500. */
static void dials(char preamble, const unsigned char *message) {
    static int held[500];
    unsigned char first[1 + 2 + 48] = {(unsigned char)preamble, 0, 48};
    int null = open("/dev/urandom", O_RDONLY);
    for (unsigned i = 0;; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(fd, (struct sockaddr *)&port, sizeof port)) { close(fd); usleep(1000); continue; }
        if (preamble == 'S') { if (read(null, first + 1, 16) == 16) send(fd, first, 17, MSG_NOSIGNAL); }
        if (preamble == 'C') {
            if (message ? (memcpy(first + 3, message, 48), 1) : read(null, first + 3, 48) == 48) send(fd, first, sizeof first, MSG_NOSIGNAL);
            struct timeval most = {.tv_usec = 200000};
            setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
            recv(fd, in, sizeof in, 0);
        }
        int old = held[i % 500];
        if (old) close(old);
        held[i % 500] = fd;
        if (preamble == 'C') { close(fd); held[i % 500] = 0; }
    }
}

static void reads(char **paths) {
    for (;;)
        for (char **path = paths; *path; path++) {
            int fd = open(*path, O_RDONLY);
            while (fd >= 0 && read(fd, in, sizeof in) > 0);
            close(fd);
        }
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    const char *what = argv[1];
    int count = atoi(argv[2]);
    struct rlimit files;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (count > MANY) count = MANY;
    if (!strcmp(what, "asks") || !strcmp(what, "unread")) {
        frames(argv[3]);
        stream(count, *what == 'a', out, out_size);
    }
    if (!strcmp(what, "large")) {
        size_t size = 4 + (4 << 20);
        unsigned char *bytes = calloc(1, size);
        bytes[1] = 4 << 4;
        stream(count, 1, bytes, size);
    }
    if (!strcmp(what, "halves")) {
        for (int i = 0; i < count; i++) {
            int fd = local();
            if (fd >= 0) send(fd, "\0\0\1", 3, MSG_NOSIGNAL);
        }
        for (;;) pause();
    }
    if (argc > 4 && strchr("sc", *what)) {
        port.sin_family = AF_INET;
        port.sin_port = htons(atoi(argv[4]));
        inet_pton(AF_INET, argv[3], &port.sin_addr);
    }
    for (int i = 1; i < count; i++) if (!fork()) { prctl(PR_SET_PDEATHSIG, SIGKILL); break; }
    if (!strcmp(what, "connects")) connects(0);
    if (!strcmp(what, "asking")) frames(argv[3]), connects(1);
    if (!strcmp(what, "shakes")) {
        if (argc > 5) frames(argv[5]);
        dials('C', argc > 5 ? out + 4 : NULL);
    }
    if (!strcmp(what, "silent")) dials(0, NULL);
    if (!strcmp(what, "channels")) dials('S', NULL);
    if (!strcmp(what, "reads")) reads(argv + 3);
    if (!strcmp(what, "spins")) for (volatile int i = 0;; i++);
    if (!strcmp(what, "kills")) for (pid_t pid = atoi(argv[3]);;) kill(pid, 0);
    return 2;
}
