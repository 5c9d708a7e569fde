/* Exit codes of children elsewhere, those among them that shells and relays are tempted to use themselves. */
#include "prog.h"

int main(int argc, char **argv)
{
    static const int codes[] = {0, 1, 2, 63, 64, 126, 127, 128, 130, 137, 143, 254, 255};
    begin(argc, argv);
    if (role("child"))
        return atoi(arg(1));
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        check(wait_status(spawn_child("child", text(codes[i]))) == codes[i] << 8);
    return ok();
}
