/* A journey while a thread changes without end what is mapped and how: few pages, so that they go before it stands still. */
#include "prog.h"
#include <sys/mman.h>

enum { PAGE = 4096, PAGES = 96 };

static unsigned char *memory;
static unsigned char filled[PAGES], protection[PAGES]; /* what each is to be */
static volatile int enough;
static volatile unsigned long changes;
static uint64_t seed = 88172645463325252ull;

static uint64_t next_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

static void protect(int page, int count, int how)
{
    check(mprotect(memory + page * PAGE, count * PAGE, how) == 0);
    memset(protection + page, how, count);
}

static void fill(int page, unsigned char with)
{
    memset(memory + page * PAGE, with, PAGE);
    filled[page] = with;
}

static void change(void)
{
    int page = next_random() % PAGES, count = 1 + next_random() % 8;
    unsigned char with = next_random();
    if (count > PAGES - page)
        count = PAGES - page;
    switch (next_random() % 5) {
    case 0:
        protect(page, count, PROT_READ);
        break;
    case 1:
        protect(page, count, PROT_NONE);
        break;
    case 2: { /* others, of which there is nothing yet */
        void *at = memory + page * PAGE;
        check(mmap(at, count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
        memset(protection + page, PROT_READ | PROT_WRITE, count);
        memset(filled + page, 0, count);
        break;
    }
    default:
        protect(page, count, PROT_READ | PROT_WRITE);
        for (int i = page; i < page + count; i++)
            fill(i, with);
    }
}

static void *change_on(void *unused)
{
    while (!enough) {
        change();
        if (++changes % 16 == 0)
            usleep(1);
    }
    return unused;
}

/* And may be used as it was protected: who may not read it is told so by the kernel. */
static void all_is_right(void)
{
    int zero = open("/dev/zero", O_RDONLY), pipes[2];
    check(zero >= 0 && pipe(pipes) == 0);
    for (int i = 0; i < PAGES; i++) {
        unsigned char *at = memory + i * PAGE, one = filled[i];
        int told = write(pipes[1], at, 1);
        check((told == 1) == (protection[i] != PROT_NONE));
        if (told == 1)
            check(read(pipes[0], &one, 1) == 1 && one == filled[i]);
        if (!(protection[i] & PROT_WRITE))
            check(read(zero, at + PAGE - 1, 1) == -1 && errno == EFAULT);
        check(mprotect(at, PAGE, PROT_READ) == 0);
        for (int byte = 0; byte < PAGE; byte++)
            check(at[byte] == filled[i]);
        check(mprotect(at, PAGE, protection[i]) == 0);
    }
    close(zero), close(pipes[0]), close(pipes[1]);
}

int main(int argc, char **argv)
{
    begin_carried(argc, argv);
    memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(memory != MAP_FAILED);
    memset(protection, PROT_READ | PROT_WRITE, PAGES);
    for (int journey = 0; journey < 3; journey++) {
        pthread_t changer;
        enough = 0;
        check(pthread_create(&changer, NULL, change_on, NULL) == 0);
        phase();
        unsigned long then = changes;
        until(changes > then + 100); /* it goes on */
        enough = 1;
        check(pthread_join(changer, NULL) == 0);
        all_is_right();
    }
    return ok();
}
