/* A journey while a thread of the lowest priority reads what the kernel tells of the process, and others leave it no processor for long. */
#include "smaps.h"

enum { MAPPINGS = 200 };

static volatile int enough;
static volatile unsigned long rounds;

static void *read_on(void *text)
{
    check(setpriority(PRIO_PROCESS, (id_t)gettid(), 19) == 0);
    while (!enough) {
        read_smaps(text, 200, MAPPINGS);
        rounds++;
        usleep(50000);
    }
    return text;
}

static void *compute(void *none)
{
    for (volatile double x = 1; !enough; x *= 1.0000001)
        ;
    return none;
}

int main(int argc, char **argv)
{
    static char text[1 << 20];
    begin_carried(argc, argv);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *all = mmap(NULL, 2 * MAPPINGS * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(all != MAP_FAILED);
    for (int i = 0; i < MAPPINGS; i++)
        check(mprotect(all + 2 * (size_t)i * page, page, PROT_NONE) == 0);
    pthread_t threads[5];
    check(pthread_create(&threads[4], NULL, read_on, text) == 0);
    for (int i = 0; i < 4; i++)
        check(pthread_create(&threads[i], NULL, compute, NULL) == 0);
    for (int journey = 0; journey < 3; journey++) {
        unsigned long then = rounds;
        phase();
        until(rounds > then + 1); /* what was being read is read to its end */
    }
    enough = 1;
    for (int i = 0; i < 5; i++)
        check(pthread_join(threads[i], NULL) == 0);
    return ok();
}
