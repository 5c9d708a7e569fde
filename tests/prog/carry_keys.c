/* Protection keys, where the processor has them: which are allocated, which mapping has which, and what each thread may do by them. A freed key, and
 * memory that may only be executed, to which the kernel gives a key itself. Elsewhere there is nothing to carry, and none can be had as before. */
#include "prog.h"
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/rseq.h>

enum { PAGE = 4096, READ_ONLY = PKEY_DISABLE_WRITE, NOTHING = PKEY_DISABLE_ACCESS };

static pthread_barrier_t ready, done;
static char *shut, *watched;
static int of_shut, of_watched;

static unsigned rights(void)
{
    unsigned low, high;
    __asm__ volatile("rdpkru" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static void set_rights(unsigned to) { __asm__ volatile("wrpkru" : : "a"(to), "c"(0), "d"(0) : "memory"); }

static sigjmp_buf back;
static volatile int found_key;

static void on_fault(int sig, siginfo_t *info, void *context)
{
    (void)sig, (void)context;
    found_key = info->si_code == SEGV_PKUERR ? (int)info->si_pkey : -1;
    siglongjmp(back, 1);
}

/* The key that forbids it, 0 if it may be done, -1 if something else does. */
static int writes(volatile char *at)
{
    unsigned mine = rights(); /* which a handler has not, and keeps when it is left so */
    if (sigsetjmp(back, 1)) {
        set_rights(mine);
        return found_key;
    }
    *at = *at;
    return 0;
}

static int reads(volatile char *at)
{
    unsigned mine = rights();
    if (sigsetjmp(back, 1)) {
        set_rights(mine);
        return found_key;
    }
    (void)*at;
    return 0;
}

/* What smaps says of a mapping. */
static int key_of(const char *at)
{
    char line[512];
    int here = 0, key = -1;
    FILE *f = fopen("/proc/self/smaps", "r");
    check(f);
    while (fgets(line, sizeof line, f)) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            here = from <= (unsigned long)at && (unsigned long)at < to;
        else if (here)
            (void)!sscanf(line, "ProtectionKey: %d", &key);
    }
    fclose(f);
    return key;
}

static char *map(int protection)
{
    char *at = mmap(NULL, 2 * PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(at != MAP_FAILED);
    return at;
}

/* Has other rights than the first thread. */
static void *other(void *arg)
{
    check(pkey_set(of_shut, 0) == 0 && pkey_set(of_watched, NOTHING) == 0);
    unsigned before = rights();
    pthread_barrier_wait(&ready);
    pthread_barrier_wait(&done);
    check(rights() == before && pkey_get(of_watched) == NOTHING);
    check(writes(shut) == 0 && memcmp(shut, "shut", 5) == 0 && reads(watched) == of_watched);
    return arg;
}

/* Holds key 0 shut for writing, in registers alone, until it is told to go on: what stops it then cannot write to its memory either. */
static void *without_memory(void *arg)
{
    unsigned before = rights(), got;
    /* The kernel writes into it when it likes. */
    char *sequence = (char *)__builtin_thread_pointer() + __rseq_offset;
    check(__rseq_size == 0 || syscall(SYS_rseq, sequence, 32, 1, RSEQ_SIG) == 0);
    pthread_barrier_wait(&ready);
    __asm__ volatile("xor %%ecx, %%ecx\n xor %%edx, %%edx\n mov %1, %%eax\n or $2, %%eax\n wrpkru\n"
                     "1: pause\n cmpl $0, (%2)\n je 1b\n"
                     "rdpkru\n mov %%eax, %0\n xor %%edx, %%edx\n mov %1, %%eax\n wrpkru"
                     : "=&r"(got)
                     : "r"(before), "r"(arg)
                     : "eax", "ecx", "edx", "memory");
    check(got == (before | 2));
    return NULL;
}

int main(int argc, char **argv)
{
    begin_carried(argc, argv);
    struct sigaction act = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    check(sigaction(SIGSEGV, &act, NULL) == 0);
    int first = pkey_alloc(0, 0);
    if (first < 0) {
        check(errno == ENOSPC || errno == EINVAL || errno == ENOSYS);
        phase();
        check(pkey_alloc(0, 0) < 0);
        return ok();
    }
    of_shut = pkey_alloc(0, NOTHING), of_watched = pkey_alloc(0, READ_ONLY);
    check(first > 0 && of_shut > first && of_watched > of_shut);
    char *only_code = map(PROT_READ | PROT_WRITE);
    memcpy(only_code, "\xb8\x2a\0\0\0\xc3", 6); /* mov eax, 42; ret */
    check(mprotect(only_code, 2 * PAGE, PROT_EXEC) == 0);
    int of_code = key_of(only_code);
    check(of_code > of_watched && reads(only_code) == of_code);
    check(pkey_free(first) == 0); /* the lowest is free, and those behind it are not */
    shut = map(PROT_READ | PROT_WRITE), watched = map(PROT_READ | PROT_WRITE);
    strcpy(shut, "shut");
    strcpy(watched, "watched");
    check(pkey_mprotect(shut, 2 * PAGE, PROT_READ | PROT_WRITE, of_shut) == 0);
    check(pkey_mprotect(watched, PAGE, PROT_READ | PROT_WRITE, of_watched) == 0);
    set_rights(rights() | 2U << (2 * 14)); /* of a key that it has not */
    unsigned before = rights();
    static volatile int over;
    pthread_t threads[2];
    pthread_barrier_init(&ready, NULL, 3);
    pthread_barrier_init(&done, NULL, 2);
    check(pthread_create(&threads[0], NULL, other, NULL) == 0);
    check(pthread_create(&threads[1], NULL, without_memory, (void *)&over) == 0);
    pthread_barrier_wait(&ready);

    phase();

    check(rights() == before);
    check(key_of(shut) == of_shut && key_of(watched) == of_watched && key_of(watched + PAGE) == 0 && key_of(only_code) == of_code);
    check(reads(shut) == of_shut && writes(watched) == of_watched && reads(watched) == 0 && strcmp(watched, "watched") == 0);
    check(writes(watched + PAGE) == 0 && reads(only_code) == of_code && ((int (*)(void))only_code)() == 42);
    pthread_barrier_wait(&done);
    over = 1;
    for (int i = 0; i < 2; i++)
        check(pthread_join(threads[i], NULL) == 0);
    check(pkey_set(of_shut, 0) == 0 && strcmp(shut, "shut") == 0);
    check(pkey_alloc(0, NOTHING) == first && pkey_free(of_watched) == 0 && pkey_alloc(0, 0) == of_watched);
    for (int key = of_code + 1; key < 16; key++)
        check(pkey_alloc(0, 0) == key);
    check(pkey_alloc(0, 0) == -1 && errno == ENOSPC);
    char *more_code = map(PROT_EXEC); /* of the same key as the other */
    check(key_of(more_code) == of_code);
    return ok();
}
