// claims_a_spawn DIRECTORY NODE HERE: asks for a program on NODE in place of `shoal run`. That one starts another on HERE, which this one is to clone, and
// says that it has. The status of that goes to DIRECTORY/status.
#include "hold.h"
#include <errno.h>

enum { OP_SPAWN = 14, OP_MAP = 22, OP_FILL = 24 };

int main(int argc, char **argv) {
    static unsigned char ask[1 << 20], answer[4096];
    char script[300];
    must(argc == 4, "arguments");
    snprintf(script, sizeof script, "unset SHOAL_SOCKET; shoal run -n %s sleep 1047; echo $? > %s/new; mv %s/new %s/status", argv[3], argv[1], argv[1], argv[1]);
    char *run[] = { "shoal", "run", "-n", argv[2], "sh", "-c", script, NULL };
    size_t length = question(argv[1], run, ask, sizeof ask);
    int daemon = at("/run/shoal/shoal.sock", 0);
    must(write(daemon, ask, length) == (ssize_t)length && read(daemon, answer, sizeof answer) > 0, "ask");
    int fd = hold_file();
    must(fd >= 0, "the hold file");
    struct hold hold = { .slots = 8 };
    for (;;) {
        hold.seq++;
        if (ioctl(fd, HOLD, &hold) < 0) {
            must(errno == EINTR, "hold");
            continue;
        }
        hold.done = hold.tag;
        hold.ret = 0;
        if (hold.op == OP_EXIT) return 0;
        if (hold.op == OP_MAP) hold.ret = 1 << 30;
        if (hold.op == OP_FILL) hold.ret = hold.arg[1];
        if (hold.op == OP_SPAWN) hold.ret = 4242;
    }
}
