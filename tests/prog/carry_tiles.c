/* The tiles of AMX, where the processor has them: of the leader, of a thread, and of one that has not used its permission. A phase goes by
 * between the loads and the stores. On other processors there is nothing to carry, and the permission is refused as before. */
#include "prog.h"
#include <sys/syscall.h>

enum { GET_PERMITTED = 0x1022, ASK = 0x1023, TILES = 18, BYTES = 1024 };

static pthread_barrier_t ready, done;

static void load(const unsigned char *from)
{
    unsigned char config[64] = {1};
    for (int tile = 0; tile < 8; tile++) {
        config[16 + 2 * tile] = 64;
        config[48 + tile] = 16;
    }
    __asm__ volatile("ldtilecfg (%0)\n tileloadd (%1, %2, 1), %%tmm0\n tileloadd (%1, %2, 1), %%tmm7"
                     :
                     : "r"(config), "r"(from), "r"(64UL)
                     : "memory");
}

static void compare(const unsigned char *with)
{
    unsigned char config[64], first[BYTES], last[BYTES];
    __asm__ volatile("sttilecfg (%0)\n tilestored %%tmm0, (%1, %3, 1)\n tilestored %%tmm7, (%2, %3, 1)"
                     :
                     : "r"(config), "r"(first), "r"(last), "r"(64UL)
                     : "memory");
    check(config[0] == 1 && config[16] == 64 && config[48 + 7] == 16);
    check(memcmp(first, with, BYTES) == 0 && memcmp(last, with, BYTES) == 0);
}

static void fill(unsigned char *bytes, int seed)
{
    for (int i = 0; i < BYTES; i++)
        bytes[i] = (unsigned char)(i * 7 + seed);
}

static void *uses(void *arg)
{
    unsigned char bytes[BYTES];
    fill(bytes, 3);
    load(bytes);
    pthread_barrier_wait(&ready);
    pthread_barrier_wait(&done);
    compare(bytes);
    return arg;
}

static void *uses_later(void *arg)
{
    unsigned char bytes[BYTES];
    pthread_barrier_wait(&ready);
    pthread_barrier_wait(&done);
    fill(bytes, 5);
    load(bytes);
    compare(bytes);
    return arg;
}

int main(int argc, char **argv)
{
    begin_carried(argc, argv);
    int there = syscall(SYS_arch_prctl, ASK, TILES) == 0;
    unsigned long before = 0, after = 0;
    syscall(SYS_arch_prctl, GET_PERMITTED, &before);
    pthread_t threads[2];
    unsigned char bytes[BYTES];
    if (there) {
        check(before >> TILES & 1);
        fill(bytes, 1);
        pthread_barrier_init(&ready, NULL, 3);
        pthread_barrier_init(&done, NULL, 3);
        check(pthread_create(&threads[0], NULL, uses, NULL) == 0);
        check(pthread_create(&threads[1], NULL, uses_later, NULL) == 0);
        load(bytes);
        pthread_barrier_wait(&ready);
    }
    phase();
    syscall(SYS_arch_prctl, GET_PERMITTED, &after);
    check(after == before);
    if (there) {
        compare(bytes);
        pthread_barrier_wait(&done);
        for (int i = 0; i < 2; i++)
            check(pthread_join(threads[i], NULL) == 0);
    }
    return ok();
}
