/* The personality goes to a child elsewhere, and to what it executes. */
#include "prog.h"
#include <sys/personality.h>
#include <sys/utsname.h>

int main(int argc, char **argv)
{
    enum { WANT = PER_LINUX32 | ADDR_NO_RANDOMIZE | UNAME26 };
    begin(argc, argv);
    if (role("child")) {
        struct utsname name;
        check(personality(0xffffffff) == WANT);
        check(uname(&name) == 0 && strcmp(name.machine, "i686") == 0 && strncmp(name.release, "2.6.", 4) == 0);
        return 7;
    }
    if (role("plain"))
        return personality(0xffffffff) == PER_LINUX ? 7 : 1;
    int before = personality(0xffffffff);
    check(exited(wait_status(spawn_child("plain")), 7) || before != PER_LINUX);
    check(personality(WANT) == before);
    check(exited(wait_status(spawn_child("child")), 7));
    return ok();
}
