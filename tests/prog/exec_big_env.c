/* A large environment, 80 variables of 10,000 bytes, arrives whole. */
#include "prog.h"

enum { COUNT = 80, LEN = 10000 };

int main(int argc, char **argv)
{
    char name[16], value[LEN + 1];
    begin(argc, argv);
    value[LEN] = 0;
    for (int i = 0; i < COUNT; i++) {
        snprintf(name, sizeof name, "PROG_%d", i);
        memset(value, '!' + i, LEN);
        if (role("child"))
            check(getenv(name) && strcmp(getenv(name), value) == 0);
        else
            check(setenv(name, value, 1) == 0);
    }
    if (!role("child"))
        check(exited(wait_status(spawn_child("child")), 0));
    return role("child") ? 0 : ok();
}
