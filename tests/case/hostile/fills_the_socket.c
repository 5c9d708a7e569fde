// fills_the_socket FILE: opens connections to the daemon until there are no more, and says half a question on each, with descriptors where that is
// possible; then makes FILE and stays.
#include "question.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>

static void send_descriptors(int to) {
    union { struct cmsghdr head; char room[CMSG_SPACE(100 * sizeof(int))]; } control = { 0 };
    struct iovec part = { "x", 1 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
    control.head = (struct cmsghdr){ .cmsg_len = CMSG_LEN(100 * sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
    sendmsg(to, &message, MSG_DONTWAIT);
}

int main(int argc, char **argv) {
    static char half[20000] = { 0, 0x7f };
    struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = "/run/shoal/shoal.sock" };
    struct rlimit files;
    must(argc == 2, "arguments");
    signal(SIGPIPE, SIG_IGN);
    must(getrlimit(RLIMIT_NOFILE, &files) == 0, "getrlimit");
    files.rlim_cur = files.rlim_max;
    must(setrlimit(RLIMIT_NOFILE, &files) == 0, "setrlimit");
    for (int i = 0; i < 5000; i++) {
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        if (fd < 0) break;
        must(connect(fd, (struct sockaddr *)&address, sizeof address) == 0, "connect");
        if (write(fd, half, sizeof half) == sizeof half) send_descriptors(fd);
    }
    must(open(argv[1], O_CREAT | O_WRONLY, 0600) >= 0 || access(argv[1], F_OK) == 0, argv[1]);
    pause();
    return 0;
}
