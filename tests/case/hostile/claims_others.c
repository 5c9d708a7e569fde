// claims_others DIRECTORY NODE PID...: asks for a program in place of `shoal run`, hands over a SIGCHLD of the kernel's, and says of each of these processes that it
// has waited for it when it is told to wait for its children.
#include "hold.h"
#include <errno.h>

int main(int argc, char **argv) {
    static unsigned char ask[1 << 20], answer[4096];
    must(argc > 3, "arguments");
    char *run[] = { "shoal", "run", "-n", argv[2], "sleep", "2", NULL };
    size_t length = question(argv[1], run, ask, sizeof ask);
    int daemon = at("/run/shoal/shoal.sock", 0);
    must(write(daemon, ask, length) == (ssize_t)length && read(daemon, answer, sizeof answer) > 0, "ask");
    int fd = hold_file();
    must(fd >= 0, "the hold file");
    struct hold hold = { .slots = 8 };
    // Until its last process has been claimed it has a signal to hand over.
    for (int next = 3;;) {
        hold.signals = next < argc;
        hold.seq++;
        hold.info[0] = SIGCHLD;
        hold.info[2] = CLD_EXITED;
        if (ioctl(fd, HOLD, &hold) < 0) {
            must(errno == EINTR, "hold");
            continue;
        }
        hold.done = hold.tag;
        hold.ret = 0;
        if (hold.op == OP_EXIT) {
            puts(next == argc ? "told to wait" : "never told to wait");
            return 0;
        }
        if (hold.op == OP_WAIT && next < argc) hold.ret = atoi(argv[next++]);
    }
}
