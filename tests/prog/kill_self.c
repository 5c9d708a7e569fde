/* A signal to oneself that is not blocked is delivered before kill returns. */
#include "prog.h"

static volatile sig_atomic_t count;
static void handler(int sig) { count += sig; }

int main(int argc, char **argv)
{
    begin(argc, argv);
    check(signal(SIGUSR1, handler) != SIG_ERR && signal(SIGRTMIN + 2, handler) != SIG_ERR);
    for (int i = 1; i <= 100; i++)
        check(kill(getpid(), SIGUSR1) == 0 && count == i * SIGUSR1);
    count = 0;
    union sigval value = {.sival_int = 5};
    check(sigqueue(getpid(), SIGRTMIN + 2, value) == 0 && count == SIGRTMIN + 2);
    return ok();
}
