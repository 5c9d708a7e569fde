/* Signals that an instruction causes, and a tracer (ptrace(2)).
 *
 * A thread may stop for PTRACE_INTERRUPT with such a signal in its queue: the kernel looks for a stop before it takes a signal (linux: get_signal).
 * Of two such signals the older is taken first, even where it is blocked and only the other one is not (linux: dequeue_synchronous_signal).
 * A tracer that gives a blocked signal back puts it into the queue again (linux: ptrace_signal). */
#include "prog.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/user.h>

enum { EVENT_STOP = 128, INT3 = 0xcc, TRAPS = 1 };

/* A filter has getppid(2) end with SIGSYS, as a fault would with SIGSEGV. */
static void trapped(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {.len = sizeof code / sizeof *code, .filter = code};
    check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
    raise(SIGSTOP);
    syscall(SYS_getppid);
    _exit(0);
}

static int next_stop(pid_t pid)
{
    int status;
    check(waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status));
    return status >> 8;
}

static int waits(pid_t pid, int sig)
{
    siginfo_t info[8];
    struct __ptrace_peeksiginfo_args all = {.off = 0, .flags = 0, .nr = 8};
    long found = ptrace(PTRACE_PEEKSIGINFO, pid, &all, info);
    check(found >= 0);
    for (long i = 0; i < found; i++)
        if (info[i].si_signo == sig && info[i].si_code == TRAPS)
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    pid_t pid = fork();
    check(pid >= 0);
    if (pid == 0)
        trapped();
    int status;
    struct user_regs_struct before, regs;
    check(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
    check(ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACESYSGOOD) == 0 && kill(pid, SIGCONT) == 0);
    /* It is about to make the call when it is interrupted. */
    do {
        int stop = next_stop(pid);
        check(ptrace(PTRACE_GETREGS, pid, 0, &before) == 0);
        if (stop == (SIGTRAP | 0x80) && before.orig_rax == SYS_getppid)
            break;
        check(ptrace(PTRACE_SYSCALL, pid, 0, 0) == 0);
    } while (1);
    check(ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0 && ptrace(PTRACE_CONT, pid, 0, 0) == 0);
    check(next_stop(pid) == (EVENT_STOP << 8 | SIGTRAP) && waits(pid, SIGSYS));

    /* It executes an int3 with all signals blocked but the one of that. */
    uint64_t mask, all_but_trap = ~(1ULL << (SIGTRAP - 1));
    check(ptrace(PTRACE_GETREGS, pid, 0, &before) == 0);
    check(ptrace(PTRACE_GETSIGMASK, pid, 8, &mask) == 0 && ptrace(PTRACE_SETSIGMASK, pid, 8, &all_but_trap) == 0);
    regs = before;
    regs.rip = (unsigned long)on_deadline; /* any code */
    regs.orig_rax = -1;
    long code = ptrace(PTRACE_PEEKTEXT, pid, regs.rip, 0);
    check(ptrace(PTRACE_POKETEXT, pid, regs.rip, (code & ~0xffL) | INT3) == 0);
    check(ptrace(PTRACE_SETREGS, pid, 0, &regs) == 0 && ptrace(PTRACE_CONT, pid, 0, 0) == 0);
    check(next_stop(pid) == SIGSYS);
    check(ptrace(PTRACE_CONT, pid, 0, SIGSYS) == 0);
    check(next_stop(pid) == SIGTRAP && waits(pid, SIGSYS));
    check(ptrace(PTRACE_POKETEXT, pid, regs.rip, code) == 0);

    /* With what it had before, it takes its signal. */
    check(ptrace(PTRACE_SETREGS, pid, 0, &before) == 0 && ptrace(PTRACE_SETSIGMASK, pid, 8, &mask) == 0);
    check(ptrace(PTRACE_CONT, pid, 0, 0) == 0 && next_stop(pid) == SIGSYS);
    check(kill(pid, SIGKILL) == 0);
    while (waitpid(pid, &status, __WALL) == pid && !WIFSIGNALED(status))
        ;
    return ok();
}
