/* Handlers, masks, signals that wait with their values, alternate stacks and ignored signals travel. */
#include "prog.h"

static volatile int taken, values[16], on_stack;
static char stack[64 * 1024];

static void handler(int sig, siginfo_t *info, void *context)
{
    char here;
    (void)sig, (void)context;
    values[taken++] = info->si_value.sival_int;
    on_stack = &here > stack && &here < stack + sizeof stack;
    check(info->si_pid == getpid() && info->si_code == SI_QUEUE);
}

int main(int argc, char **argv)
{
    begin_carried(argc, argv);
    const int rt = SIGRTMIN + 3;
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack}, now;
    struct sigaction act = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK}, had;
    sigset_t set, pending;
    sigaddset(&act.sa_mask, SIGWINCH);
    check(sigaltstack(&alternate, NULL) == 0 && sigaction(rt, &act, NULL) == 0);
    check(signal(SIGUSR2, SIG_IGN) != SIG_ERR);
    sigemptyset(&set);
    sigaddset(&set, rt);
    sigaddset(&set, SIGUSR1);
    check(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    for (int i = 0; i < 5; i++)
        check(sigqueue(getpid(), rt, (union sigval){.sival_int = 100 + i}) == 0);
    check(kill(getpid(), SIGUSR1) == 0);
    check(pthread_kill(pthread_self(), SIGUSR1) == 0); /* for the thread too */

    phase();

    check(taken == 0 && sigpending(&pending) == 0 && sigismember(&pending, rt) && sigismember(&pending, SIGUSR1));
    check(sigaltstack(NULL, &now) == 0 && now.ss_sp == stack && now.ss_size == sizeof stack);
    check(sigaction(rt, NULL, &had) == 0 && had.sa_sigaction == handler && sigismember(&had.sa_mask, SIGWINCH));
    check(raise(SIGUSR2) == 0);
    sigemptyset(&set);
    sigaddset(&set, rt);
    check(sigprocmask(SIG_UNBLOCK, &set, NULL) == 0);
    check(taken == 5 && on_stack);
    for (int i = 0; i < 5; i++)
        check(values[i] == 100 + i);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    for (int i = 0; i < 2; i++) {
        siginfo_t info;
        struct timespec none = {0, 0};
        check(sigtimedwait(&set, &info, &none) == SIGUSR1 && info.si_pid == getpid());
    }
    return ok();
}
