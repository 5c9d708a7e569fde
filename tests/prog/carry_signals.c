/* Handlers, masks, signals that wait with their values, for the process or a thread, alternate stacks and ignored signals travel; also for who is on such a stack. */
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

enum { FOR_A_THREAD = 5, CARRIED_IN = 6 }; /* behind SIGRTMIN */

static __thread volatile int own_taken, own_values[8], own_on_stack;
static __thread char *own_stack;
static pthread_barrier_t ready, done;

static void own_handler(int sig, siginfo_t *info, void *context)
{
    char here;
    (void)sig, (void)context;
    own_values[own_taken++] = info->si_value.sival_int;
    own_on_stack = &here > own_stack && &here < own_stack + sizeof stack;
    check(info->si_pid == getpid() && info->si_code == SI_QUEUE);
}

/* Has signals of its own that wait, and a stack of its own for them. */
static void *with_its_own(void *number)
{
    int first = (int)(intptr_t)number;
    sigset_t set = set_of(SIGRTMIN + FOR_A_THREAD), pending;
    stack_t now;
    own_stack = malloc(sizeof stack);
    check(own_stack && sigaltstack(&(stack_t){.ss_sp = own_stack, .ss_size = sizeof stack}, NULL) == 0);
    check(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    for (int i = 0; i < 3; i++)
        check(pthread_sigqueue(pthread_self(), SIGRTMIN + FOR_A_THREAD, (union sigval){.sival_int = first + i}) == 0);
    pthread_barrier_wait(&ready);
    pthread_barrier_wait(&done);
    check(own_taken == 0 && sigpending(&pending) == 0 && sigismember(&pending, SIGRTMIN + FOR_A_THREAD));
    check(sigaltstack(NULL, &now) == 0 && now.ss_sp == own_stack && now.ss_size == sizeof stack && now.ss_flags == 0);
    check(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0 && own_taken == 3 && own_on_stack);
    for (int i = 0; i < 3; i++)
        check(own_values[i] == first + i);
    return NULL;
}

static volatile int carried_in;

static void is_carried(int sig)
{
    stack_t now;
    sigset_t set;
    check(sigaltstack(NULL, &now) == 0 && now.ss_flags == SS_ONSTACK);
    phase();
    check(sigaltstack(NULL, &now) == 0 && now.ss_flags == SS_ONSTACK && now.ss_sp == stack && now.ss_size == sizeof stack);
    check(sigprocmask(SIG_BLOCK, NULL, &set) == 0 && sigismember(&set, sig) && sigismember(&set, SIGURG));
    carried_in++;
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

    pthread_t threads[2];
    struct sigaction own = {.sa_sigaction = own_handler, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    check(sigaction(SIGRTMIN + FOR_A_THREAD, &own, NULL) == 0);
    pthread_barrier_init(&ready, NULL, 3), pthread_barrier_init(&done, NULL, 3);
    for (int i = 0; i < 2; i++)
        check(pthread_create(&threads[i], NULL, with_its_own, (void *)(intptr_t)(1000 * i + 1)) == 0);
    pthread_barrier_wait(&ready);

    phase();

    pthread_barrier_wait(&done);
    for (int i = 0; i < 2; i++)
        check(pthread_join(threads[i], NULL) == 0);
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
    struct sigaction in = {.sa_handler = is_carried, .sa_flags = SA_ONSTACK};
    sigaddset(&in.sa_mask, SIGURG);
    check(sigaction(SIGRTMIN + CARRIED_IN, &in, NULL) == 0 && raise(SIGRTMIN + CARRIED_IN) == 0 && carried_in == 1);
    check(sigprocmask(SIG_BLOCK, NULL, &set) == 0 && !sigismember(&set, SIGURG) && !sigismember(&set, SIGRTMIN + CARRIED_IN));
    check(sigaltstack(NULL, &now) == 0 && now.ss_flags == 0 && now.ss_sp == stack);
    return ok();
}
