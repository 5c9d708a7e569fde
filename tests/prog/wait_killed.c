/* The parent kills its child by SIGTERM, SIGKILL and a real-time signal: wait says which. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        say(1, 'r');
        pause_forever();
    }
    const int sigs[] = {SIGTERM, SIGKILL, SIGINT, SIGRTMIN + 5};
    for (int i = 0; i < 4; i++) {
        struct piped child = spawn_piped("child");
        check(hear(child.out) == 'r');
        check(waitpid(child.pid, NULL, WNOHANG) == 0);
        check(kill(child.pid, sigs[i]) == 0);
        check(wait_status(child.pid) == sigs[i]);
        check(hear(child.out) == -1);
        check(kill(child.pid, 0) == -1 && errno == ESRCH);
    }
    return ok();
}
