/* RLIMIT_CPU holds where the child runs: it dies of SIGXCPU after a second of CPU time. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        struct rlimit second = {1, 3};
        check(setrlimit(RLIMIT_CPU, &second) == 0);
        for (;;)
            getppid();
    }
    check(killed(wait_status(spawn_child("child")), SIGXCPU));
    return ok();
}
