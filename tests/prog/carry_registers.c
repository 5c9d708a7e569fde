/* All registers are what they were: general ones, bases of segments, SSE, AVX, AVX-512 where the processor has it, x87, flags and rounding. */
#include "prog.h"
#include <asm/prctl.h>

/* Writes "phase" and reads a line with nothing but system calls, between loads and stores of registers. */
#define JOURNEY                                                                                                        \
    "mov $1, %%eax\n mov $1, %%edi\n lea phase_text(%%rip), %%rsi\n mov $6, %%edx\n syscall\n"                           \
    "1: xor %%eax, %%eax\n xor %%edi, %%edi\n lea phase_answer(%%rip), %%rsi\n mov $1, %%edx\n syscall\n"              \
    "cmp $-4, %%rax\n je 1b\n"

enum { ROUND_UP = 0x4000, DOUBLE_DOWN = 0x067f }; /* in MXCSR, and the control word of x87 */

char phase_text[] = "phase\n", phase_answer[8];

static unsigned char in[32][64], out[32][64];
static uint64_t in_gs = 0x5555666677778888;
static __thread uint64_t in_fs = 0x1111222233334444;

__attribute__((noinline, target("avx512f"))) static void wide(void)
{
    __asm__ volatile("vmovdqu64 (%0), %%zmm0\n vmovdqu64 64(%0), %%zmm1\n vmovdqu64 448(%0), %%zmm7\n"
                     "vmovdqu64 1024(%0), %%zmm16\n vmovdqu64 1984(%0), %%zmm31\n" JOURNEY
                     "vmovdqu64 %%zmm0, (%1)\n vmovdqu64 %%zmm1, 64(%1)\n vmovdqu64 %%zmm7, 448(%1)\n"
                     "vmovdqu64 %%zmm16, 1024(%1)\n vmovdqu64 %%zmm31, 1984(%1)\n"
                     :
                     : "r"(in), "r"(out)
                     : "rax", "rdi", "rsi", "rdx", "rcx", "r11", "memory", "xmm0", "xmm1", "xmm7", "xmm16", "xmm31");
    const int used[] = {0, 1, 7, 16, 31};
    for (int i = 0; i < 5; i++)
        check(memcmp(in[used[i]], out[used[i]], 64) == 0);
    unsigned low, high;
    __asm__ volatile("mov $0x1234, %%r12d\n kmovw %%r12d, %%k1\n mov $0xfedc, %%r12d\n kmovw %%r12d, %%k7\n" JOURNEY "kmovw %%k1, %0\n kmovw %%k7, %1\n"
                     : "=r"(low), "=r"(high)
                     :
                     : "rax", "rdi", "rsi", "rdx", "rcx", "r11", "r12", "memory");
    check(low == 0x1234 && high == 0xfedc);
}

__attribute__((noinline, target("avx"))) static void medium(void)
{
    __asm__ volatile("vmovdqu (%0), %%ymm0\n vmovdqu 64(%0), %%ymm9\n vmovdqu 128(%0), %%ymm15\n" JOURNEY
                     "vmovdqu %%ymm0, (%1)\n vmovdqu %%ymm9, 64(%1)\n vmovdqu %%ymm15, 128(%1)\n vzeroupper\n"
                     :
                     : "r"(in), "r"(out)
                     : "rax", "rdi", "rsi", "rdx", "rcx", "r11", "memory", "xmm0", "xmm9", "xmm15");
    for (int i = 0; i < 3; i++)
        check(memcmp(in[i], out[i], 32) == 0);
}

__attribute__((noinline)) static void narrow(void)
{
    __asm__ volatile("movdqu (%0), %%xmm0\n movdqu 64(%0), %%xmm9\n movdqu 128(%0), %%xmm15\n" JOURNEY
                     "movdqu %%xmm0, (%1)\n movdqu %%xmm9, 64(%1)\n movdqu %%xmm15, 128(%1)\n"
                     :
                     : "r"(in), "r"(out)
                     : "rax", "rdi", "rsi", "rdx", "rcx", "r11", "memory", "xmm0", "xmm9", "xmm15");
    for (int i = 0; i < 3; i++)
        check(memcmp(in[i], out[i], 16) == 0);
}

int main(int argc, char **argv)
{
    begin_carried(argc, argv);
    if (!getenv("PHASES"))
        return ok();
    for (int i = 0; i < 32; i++)
        for (int j = 0; j < 64; j++)
            in[i][j] = (unsigned char)(i * 64 + j * 3 + 1);
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | ROUND_UP);
    uint64_t kept[4], flags, base, seen;
    uint16_t control = DOUBLE_DOWN;
    long double x87;
    __asm__ volatile("fldcw %0" : : "m"(control));
    check(syscall(SYS_arch_prctl, ARCH_SET_GS, &in_gs) == 0);
    __asm__ volatile("fldpi\n mov $0x1111, %%r12\n mov $0x2222, %%r13\n mov $0x3333, %%r14\n mov $0x4444, %%r8\n std\n" JOURNEY
                     "pushf\n cld\n popq %4\n fstpt %5\n mov %%r12, %0\n mov %%r13, %1\n mov %%r14, %2\n mov %%r8, %3\n"
                     : "=m"(kept[0]), "=m"(kept[1]), "=m"(kept[2]), "=m"(kept[3]), "=m"(flags), "=m"(x87)
                     :
                     : "rax", "rdi", "rsi", "rdx", "rcx", "r11", "r12", "r13", "r14", "r8", "memory", "cc");
    check(kept[0] == 0x1111 && kept[1] == 0x2222 && kept[2] == 0x3333 && kept[3] == 0x4444);
    check(flags & 0x400 && x87 > 3.14159L && x87 < 3.1416L);
    __asm__ volatile("fnstcw %0\n mov %%gs:0, %1" : "=m"(control), "=r"(seen));
    check(control == DOUBLE_DOWN && seen == in_gs && in_fs == 0x1111222233334444);
    check(syscall(SYS_arch_prctl, ARCH_GET_GS, &base) == 0 && base == (uint64_t)&in_gs);
    narrow();
    if (__builtin_cpu_supports("avx"))
        medium();
    if (__builtin_cpu_supports("avx512f"))
        wide();
    check((__builtin_ia32_stmxcsr() & ROUND_UP) == ROUND_UP);
    return ok();
}
