/* A process that has all the memory that its limits allow is carried all the same, and can have no more afterwards. */
#include "prog.h"
#include <sys/mman.h>

/* Less than anything needs that would work in it. */
enum { ROOM = 16 * 4096 };

static const int limits[] = {RLIMIT_AS, RLIMIT_DATA};
enum { LIMITS = sizeof limits / sizeof *limits };

static void *map(void) { return mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }

static void all_is_had(void)
{
    check(map() == MAP_FAILED && errno == ENOMEM);
}

int main(int argc, char **argv)
{
    struct rlimit before[LIMITS], now;
    begin_carried(argc, argv);
    for (int i = 0; i < LIMITS; i++)
        check(getrlimit(limits[i], &before[i]) == 0);
    for (int i = 0; i < LIMITS; i++) {
        /* What it has is above that already, which is its to keep (getrlimit(2)). */
        struct rlimit small = {ROOM, before[i].rlim_max};
        check(setrlimit(limits[i], &small) == 0);
        all_is_had();

        phase();

        check(getrlimit(limits[i], &now) == 0 && now.rlim_cur == ROOM && now.rlim_max == before[i].rlim_max);
        all_is_had();
        check(setrlimit(limits[i], &before[i]) == 0);
        void *room = map();
        check(room != MAP_FAILED && munmap(room, ROOM) == 0);
    }
    return ok();
}
