// What a stand-in and its daemon say to each other, for whoever stands in otherwise than `shoal run` would.
#include "question.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>

// kern::standin::Hold, as far as it is of use here.
struct hold {
    unsigned seq, signals, done, slots, slot, top;
    long ret, out[4];
    int info[8];
    unsigned op, tag;
    long arg[6];
    char name[16];
};
#define HOLD _IOWR('g', 1, struct hold)

// kern::standin::Op
enum { OP_EXIT = 2, OP_WAIT = 9 };

static int hold_file(void) { return open("/run/shoal/ghosts/hold", O_RDWR | O_CLOEXEC); }
