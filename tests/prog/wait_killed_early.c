/* A signal right after fork, at any point of the child's start, is never lost. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child"))
        pause_forever();
    for (int i = 0; i < 24; i++) {
        int sig = i % 2 ? SIGTERM : SIGKILL;
        pid_t child = spawn_child("child");
        usleep((useconds_t)(i * 400));
        check(kill(child, sig) == 0);
        check(wait_status(child) == sig);
    }
    return ok();
}
