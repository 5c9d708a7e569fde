/* Of several pending real-time signals the lowest number is delivered first. */
#include "prog.h"
#include <stdbool.h>

static int order[8];
static volatile sig_atomic_t count;
static void handler(int sig) { order[count++] = sig - SIGRTMIN; }

static bool all_pend(void)
{
    sigset_t pending;
    check(sigpending(&pending) == 0);
    for (int i = 0; i < 8; i++)
        if (!sigismember(&pending, SIGRTMIN + i))
            return false;
    return sigismember(&pending, SIGUSR1);
}

/* They come from elsewhere, the highest first, and all wait before one is taken. */
static int child(void)
{
    sigset_t set = set_of(SIGUSR1);
    for (int i = 0; i < 8; i++)
        sigaddset(&set, SIGRTMIN + i);
    check(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    sigdelset(&set, SIGUSR1);
    say(1, 'r');
    until(all_pend());
    for (int i = 0; i < 8; i++)
        check(sigwaitinfo(&set, NULL) == SIGRTMIN + i);
    return 53;
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child"))
        return child();
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
    struct piped other = spawn_piped("child");
    check(hear(other.out) == 'r');
    for (int i = 7; i >= 0; i--)
        check(kill(other.pid, SIGRTMIN + i) == 0);
    check(kill(other.pid, SIGUSR1) == 0 && exited(wait_status(other.pid), 53));
    return ok();
}
