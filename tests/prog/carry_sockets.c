/* Pairs of unix sockets within the process keep what is in them in both directions, message by message; how they are shut; options. */
#include "prog.h"
#include <sys/socket.h>
#include <sys/un.h>

static int deaf[2];

static void *reader(void *arg)
{
    check(read(deaf[0], arg, 5) == 5);
    return arg;
}

static void pair(int kind, int *ends) { check(socketpair(AF_UNIX, kind, 0, ends) == 0); }

static void set(int fd, int option, int value) { check(setsockopt(fd, SOL_SOCKET, option, &value, sizeof value) == 0); }

static int get(int fd, int option)
{
    int value = -1;
    socklen_t length = sizeof value;
    check(getsockopt(fd, SOL_SOCKET, option, &value, &length) == 0);
    return value;
}

static int gets_message(int fd, const char *text)
{
    char got[100];
    ssize_t n = recv(fd, got, sizeof got, MSG_DONTWAIT);
    return n == (ssize_t)strlen(text) && memcmp(got, text, strlen(text)) == 0;
}

static void sends(int fd, const char *text) { check(send(fd, text, strlen(text), 0) == (ssize_t)strlen(text)); }

/* The next message and who has sent it. */
static struct ucred sender(int fd)
{
    char text[8];
    union {
        char room[CMSG_SPACE(sizeof(struct ucred))];
        struct cmsghdr align;
    } control;
    struct iovec piece = {text, sizeof text};
    struct msghdr head = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    check(recvmsg(fd, &head, MSG_DONTWAIT) == 4 && memcmp(text, "mine", 4) == 0);
    struct cmsghdr *cmsg = CMSG_FIRSTHDR(&head);
    check(cmsg && cmsg->cmsg_type == SCM_CREDENTIALS);
    struct ucred who;
    memcpy(&who, CMSG_DATA(cmsg), sizeof who);
    return who;
}

int main(int argc, char **argv)
{
    int stream[2], dgram[2], packet[2], half[2], left[2], full[2], creds[2];
    static char big[60000], got[8], heard[8];
    begin_carried(argc, argv);
    pair(SOCK_STREAM, stream), pair(SOCK_DGRAM | SOCK_CLOEXEC, dgram), pair(SOCK_SEQPACKET, packet), pair(SOCK_STREAM, half);
    pair(SOCK_STREAM, left), pair(SOCK_STREAM | SOCK_NONBLOCK, full), pair(SOCK_DGRAM, creds), pair(SOCK_STREAM, deaf);
    memset(big, 'b', sizeof big);
    sends(stream[0], "forth"), sends(stream[1], "back"), sends(stream[0], ", and more");
    check(write(stream[1], big, sizeof big) == sizeof big);
    sends(dgram[0], "one"), sends(dgram[0], "two"), sends(dgram[0], "three"), sends(dgram[1], "x");
    sends(packet[0], "first"), sends(packet[0], "second"), sends(packet[1], "answer");
    sends(half[0], "last words"), sends(left[0], "left behind");
    check(shutdown(half[0], SHUT_WR) == 0 && close(left[0]) == 0);
    set(full[0], SO_SNDBUF, 100000), set(full[1], SO_RCVLOWAT, 7), set(full[1], SO_PRIORITY, 3);
    struct timeval limit = {.tv_sec = 3, .tv_usec = 500000};
    check(setsockopt(full[1], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    size_t filled = 0;
    for (ssize_t n; (n = write(full[0], "0123456789", 10)) > 0;)
        filled += (size_t)n;
    check(errno == EAGAIN && filled > 1000);
    set(creds[1], SO_PASSCRED, 1), sends(creds[0], "mine");
    check(fcntl(full[1], F_SETFL, 0) == 0); /* each end has flags of its own */
    int again = dup(dgram[1]), high = fcntl(packet[1], F_DUPFD, 200);
    pthread_t thread;
    check(again >= 0 && high >= 200 && pthread_create(&thread, NULL, reader, heard) == 0);

    phase();

    check(gets_message(stream[1], "forth, and more") && recv(stream[0], got, 4, 0) == 4 && memcmp(got, "back", 4) == 0);
    for (size_t done = 0; done < sizeof big;) {
        ssize_t n = recv(stream[0], big, sizeof big - done, MSG_DONTWAIT);
        check(n > 0 && big[0] == 'b' && big[n - 1] == 'b');
        done += (size_t)n;
    }
    check(gets_message(again, "one") && gets_message(dgram[1], "two") && gets_message(dgram[1], "three"));
    check(recv(dgram[1], got, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN && gets_message(dgram[0], "x"));
    check(fcntl(dgram[0], F_GETFD) == FD_CLOEXEC && fcntl(again, F_GETFD) == 0);
    check(gets_message(packet[1], "first") && gets_message(high, "second") && gets_message(packet[0], "answer"));
    check(gets_message(half[1], "last words") && read(half[1], got, 1) == 0 && write(half[1], "x", 1) == 1);
    check(read(half[0], got, 1) == 1 && send(half[0], "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
    check(gets_message(left[1], "left behind") && read(left[1], got, 1) == 0 && send(left[1], "x", 1, MSG_NOSIGNAL) == -1);
    check(get(full[0], SO_SNDBUF) == 200000 && get(full[1], SO_RCVLOWAT) == 7 && get(full[1], SO_PRIORITY) == 3);
    socklen_t length = sizeof limit;
    check(getsockopt(full[1], SOL_SOCKET, SO_RCVTIMEO, &limit, &length) == 0 && limit.tv_sec == 3 && limit.tv_usec == 500000);
    check(fcntl(full[0], F_GETFL) & O_NONBLOCK && !(fcntl(full[1], F_GETFL) & O_NONBLOCK));
    for (size_t done = 0; done < filled;) {
        ssize_t n = recv(full[1], big, sizeof big, MSG_DONTWAIT);
        check(n > 0 && big[0] == '0' + (char)(done % 10));
        done += (size_t)n;
    }
    struct ucred who = sender(creds[1]), peer;
    length = sizeof peer;
    check(who.pid == getpid() && who.uid == getuid() && get(creds[1], SO_PASSCRED) == 1);
    check(getsockopt(stream[0], SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.pid == getpid());
    sends(deaf[1], "hello");
    check(pthread_join(thread, NULL) == 0 && memcmp(heard, "hello", 5) == 0);
    sends(stream[0], "new");
    check(recv(stream[1], got, 3, 0) == 3);
    return ok();
}
