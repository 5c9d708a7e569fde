/* A journey while a thread writes without end: every write is there or none of it, and what was thrown away stays away. */
#include "prog.h"
#include <sys/mman.h>

enum { PAGE = 4096, BLOCKS = 12, BLOCK = 2 << 20, CELLS = BLOCK / 16 };

/* A cell is right when `check` is made of `count`; zero cells are right too. */
struct cell {
    uint64_t count, check;
};

static struct cell *cells[BLOCKS];
static uint64_t total[BLOCKS]; /* what the counts of a block are together */
static volatile int enough;
static volatile uint64_t writes;
static uint64_t seed = 88172645463325252ull;

static uint64_t next_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

static uint64_t mixed(uint64_t count) { return count * 0x9e3779b97f4a7c15ull; }

static struct cell *new_block(void *at)
{
    int fixed = at ? MAP_FIXED : 0;
    void *made = mmap(at, BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
    check(made != MAP_FAILED);
    return made;
}

/* Throws away a block, or a piece of one, in one of the ways that there are. */
static void throw_away(int b)
{
    size_t from = next_random() % (BLOCK / PAGE) * PAGE, length = next_random() % (BLOCK - from) / PAGE * PAGE;
    switch (next_random() % 4) {
    case 0:
        from = 0, length = BLOCK;
        check(madvise(cells[b], BLOCK, MADV_DONTNEED) == 0);
        break;
    case 1:
        from = 0, length = BLOCK;
        check(new_block(cells[b]) == cells[b]);
        break;
    case 2: { /* keeps what it has, elsewhere */
        struct cell *away = new_block(NULL);
        check(mremap(cells[b], BLOCK, BLOCK, MREMAP_MAYMOVE | MREMAP_FIXED, away) == away);
        cells[b] = away;
        return;
    }
    default:
        check(length == 0 || madvise((char *)cells[b] + from, length, MADV_DONTNEED) == 0);
    }
    total[b] = 0;
    for (int i = 0; i < CELLS; i++)
        total[b] += cells[b][i].count;
}

static void *write_on(void *unused)
{
    while (!enough) {
        int b = (int)(next_random() % BLOCKS);
        struct cell *cell = &cells[b][next_random() % CELLS];
        cell->count += 1;
        cell->check = mixed(cell->count);
        total[b] += 1;
        if (++writes % 30000 == 0)
            throw_away(b);
        if (writes % 64 == 0)
            usleep(1);
    }
    return unused;
}

static void all_is_right(void)
{
    for (int b = 0; b < BLOCKS; b++) {
        uint64_t sum = 0;
        for (int i = 0; i < CELLS; i++) {
            check(cells[b][i].check == mixed(cells[b][i].count));
            sum += cells[b][i].count;
        }
        check(sum == total[b]);
    }
}

int main(int argc, char **argv)
{
    begin_carried(argc, argv);
    pthread_t writer;
    for (int b = 0; b < BLOCKS; b++) {
        cells[b] = new_block(NULL);
        for (int i = 0; i < CELLS; i++)
            cells[b][i] = (struct cell){1, mixed(1)};
        total[b] = CELLS;
    }
    for (int journey = 0; journey < 3; journey++) {
        enough = 0;
        check(pthread_create(&writer, NULL, write_on, NULL) == 0);
        phase();
        uint64_t then = writes;
        until(writes > then + 100); /* it goes on */
        enough = 1;
        check(pthread_join(writer, NULL) == 0);
        all_is_right();
    }
    return ok();
}
