/* Every exit code from 0 to 255 arrives; what is above is cut to eight bits. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    for (int code = 0; code < 256; code++) {
        pid_t child = fork_child();
        if (child == 0)
            _exit(code);
        check(wait_status(child) == code << 8);
    }
    pid_t child = fork_child();
    if (child == 0)
        _exit(0x1234);
    check(exited(wait_status(child), 0x34));
    return ok();
}
