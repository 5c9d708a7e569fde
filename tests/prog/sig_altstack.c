/* A handler with SA_ONSTACK runs on the alternative stack, and a stack overflow can be survived there. */
#pragma GCC diagnostic ignored "-Winfinite-recursion"
#include "prog.h"
#include <setjmp.h>

static char stack[65536];
static sigjmp_buf back;

static void on_segv(int sig)
{
    char here;
    (void)sig;
    check(&here >= stack && &here < stack + sizeof stack);
    siglongjmp(back, 1);
}

static int sink;
__attribute__((noinline)) static int deeper(int n)
{
    volatile char room[4096];
    room[0] = (char)n;
    sink += room[0];
    return deeper(n + 1) + room[0];
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    stack_t alt = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction act = {.sa_handler = on_segv, .sa_flags = SA_ONSTACK};
    struct rlimit lim = {1 << 20, 1 << 20};
    check(setrlimit(RLIMIT_STACK, &lim) == 0);
    check(sigaltstack(&alt, NULL) == 0 && sigaction(SIGSEGV, &act, NULL) == 0);
    if (sigsetjmp(back, 1) == 0)
        return deeper(0);
    return ok();
}
