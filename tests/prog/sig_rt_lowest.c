/* Of several pending real-time signals the lowest number is delivered first. */
#include "prog.h"

static int order[8];
static volatile sig_atomic_t count;
static void handler(int sig) { order[count++] = sig - SIGRTMIN; }

int main(int argc, char **argv)
{
    begin(argc, argv);
    struct sigaction act = {.sa_handler = handler};
    sigset_t all, old;
    sigfillset(&all);
    act.sa_mask = all;
    check(sigprocmask(SIG_SETMASK, &all, &old) == 0);
    for (int i = 7; i >= 0; i--)
        check(sigaction(SIGRTMIN + i, &act, NULL) == 0 && kill(getpid(), SIGRTMIN + i) == 0);
    check(count == 0);
    check(sigprocmask(SIG_SETMASK, &old, NULL) == 0);
    check(count == 8);
    for (int i = 0; i < 8; i++)
        check(order[i] == i);
    return ok();
}
