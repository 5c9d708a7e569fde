/* Every exit code of a child elsewhere, also those that shells and relays are tempted to use themselves. */
#include "prog.h"

enum { AT_ONCE = 16 };

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child"))
        return atoi(arg(1));
    for (int code = 0; code < 256; code += AT_ONCE) {
        pid_t child[AT_ONCE];
        for (int i = 0; i < AT_ONCE; i++)
            child[i] = spawn_child("child", text(code + i));
        for (int i = 0; i < AT_ONCE; i++)
            check(wait_status(child[i]) == (code + i) << 8);
    }
    return ok();
}
