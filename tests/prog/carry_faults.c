/* Threads that fault all the time, and handle that: each fault brings its signal once, with the address and the trap of that fault. Beside them a SIGTRAP that
 * somebody has sent waits, which is blocked; and in another thread a SIGSEGV that looks like that of a fault. */
#include "prog.h"
#include <stdatomic.h>
#include <ucontext.h>

enum { DIVIDES = 0, BREAKS = 3, IS_INVALID = 6, PAGE_FAULT = 14 }; /* traps of x86-64 */

struct fault {
    int sig, trap, over; /* bytes to go over */
    const char *at, *address;
};

extern const char at_null[], at_last[], at_ill[], at_zero[], at_break[];
static char *readable;
static struct fault all[5];
static atomic_int begun, over;
static __thread const struct fault *own;
static __thread volatile long handled;

static void on_fault(int sig, siginfo_t *info, void *context)
{
    greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
    check(own && sig == own->sig && regs[REG_RIP] == (greg_t)own->at);
    check(regs[REG_TRAPNO] == own->trap && info->si_code > 0);
    check(own->trap == BREAKS || info->si_addr == own->address);
    check(own->trap != PAGE_FAULT || (regs[REG_CR2] == (greg_t)own->address && (regs[REG_ERR] & 4)));
    regs[REG_RIP] += own->over;
    handled++;
}

#define FAULT(label, code, ...) __asm__ volatile(".globl " #label "\n" #label ": " code ::__VA_ARGS__ : "rax", "memory")

/* Not to be copied to where else it is used: it has labels. */
__attribute__((noinline)) static void fault(long which)
{
    switch (which) {
    case 0:
        FAULT(at_null, "movb (%0), %%al", "D"(0L));
        break;
    case 1:
        FAULT(at_last, "movb $0, (%0)", "D"(readable));
        break;
    case 2:
        FAULT(at_ill, "ud2", "D"(0L));
        break;
    case 3:
        FAULT(at_zero, "divl %%ecx", "d"(0), "c"(0));
        break;
    default: __asm__ volatile("int3\n.globl at_break\nat_break: nop" ::: "memory");
    }
}

static void *faults(void *which)
{
    long wanted = 0;
    own = &all[(long)which];
    begun++;
    while (!over) {
        wanted++;
        fault((long)which);
        check(handled == wanted);
    }
    return NULL;
}

static void *looks_like_a_fault(void *unused)
{
    sigset_t set = set_of(SIGSEGV);
    siginfo_t info = {.si_signo = SIGSEGV, .si_code = SEGV_MAPERR}, got;
    check(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    check(syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), SIGSEGV, &info) == 0);
    begun++;
    while (!over)
        usleep(10000);
    check(sigtimedwait(&set, &got, &(struct timespec){0}) == SIGSEGV && got.si_code == SEGV_MAPERR);
    check(sigtimedwait(&set, &got, &(struct timespec){0}) == -1 && errno == EAGAIN);
    return unused;
}

int main(int argc, char **argv)
{
    begin_carried(argc, argv);
    readable = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(readable != MAP_FAILED);
    all[0] = (struct fault){SIGSEGV, PAGE_FAULT, 2, at_null, NULL};
    all[1] = (struct fault){SIGSEGV, PAGE_FAULT, 3, at_last, readable};
    all[2] = (struct fault){SIGILL, IS_INVALID, 2, at_ill, at_ill};
    all[3] = (struct fault){SIGFPE, DIVIDES, 2, at_zero, at_zero};
    all[4] = (struct fault){SIGTRAP, BREAKS, 1, at_break, NULL};
    struct sigaction act = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    for (int i = 0; i < 5; i++)
        check(sigaction(all[i].sig, &act, NULL) == 0);
    pthread_t threads[6];
    for (long i = 0; i < 5; i++)
        check(pthread_create(&threads[i], NULL, faults, (void *)i) == 0);
    check(pthread_create(&threads[5], NULL, looks_like_a_fault, NULL) == 0);
    sigset_t set = set_of(SIGTRAP);
    siginfo_t got;
    check(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    check(pthread_kill(pthread_self(), SIGTRAP) == 0);
    until(begun == 6);

    phase();

    over = 1;
    for (int i = 0; i < 6; i++)
        check(pthread_join(threads[i], NULL) == 0);
    check(sigtimedwait(&set, &got, &(struct timespec){0}) == SIGTRAP);
    check(sigtimedwait(&set, &got, &(struct timespec){0}) == -1 && errno == EAGAIN);
    return ok();
}
