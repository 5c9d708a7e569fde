/* Memory of huge pages from their pool (MAP_HUGETLB), where it has enough of them for two of this: what is in it, what may be done to it, and that it is of
 * that size still. Elsewhere it is memory of small pages. */
#include "prog.h"
#include <sys/mman.h>

enum { PAGES = 3 };
static const size_t HUGE = 2UL << 20;

static int pool = MAP_HUGETLB | 21 << MAP_HUGE_SHIFT;

/* As many as this needs, and a second one of it: where both are on one machine for a moment. */
static int enough(void)
{
    size_t length = 2 * (2 * PAGES + 1) * HUGE;
    void *at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | pool, -1, 0);
    return at != MAP_FAILED && munmap(at, length) == 0;
}

static char *map(int pages, int more)
{
    char *at = mmap(NULL, (size_t)pages * HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | pool | more, -1, 0);
    check(at != MAP_FAILED);
    return at;
}

static int fault(const char *at, const char *end)
{
    int bad = 0;
    for (; at < end; at += 4096)
        bad |= *at != 0;
    return bad;
}

int main(int argc, char **argv)
{
    begin_carried(argc, argv);
    int there = enough();
    if (!there)
        pool = 0;
    char *some = map(PAGES, 0), *fixed = map(1, 0), *kept = map(PAGES, MAP_NORESERVE);
    for (size_t at = 0; at < HUGE; at += 512)
        *(size_t *)(some + at) = at * 7 + 1;
    some[2 * HUGE] = 'l', some[3 * HUGE - 1] = 'e';
    memset(fixed, 'f', HUGE);
    check(mprotect(fixed, HUGE, PROT_READ) == 0 && madvise(fixed, HUGE, MADV_DONTFORK) == 0);
    kept[HUGE + 5] = 'k';

    phase();

    for (size_t at = 0; at < HUGE; at += 512)
        check(*(size_t *)(some + at) == at * 7 + 1);
    check(some[2 * HUGE] == 'l' && some[3 * HUGE - 1] == 'e' && !fault(some + HUGE, some + 2 * HUGE));
    for (size_t at = 0; at < HUGE; at++)
        check(fixed[at] == 'f');
    check(kept[HUGE + 5] == 'k' && !fault(kept, kept + HUGE) && has_flag(fixed, " dc") && !has_flag(fixed, " wr"));
    check(has_flag(some, " ht") == there && has_flag(fixed, " ht") == there && has_flag(kept, " ht") == there);
    check(has_flag(kept, " nr"));
    some[HUGE] = 1, kept[0] = 1;
    check(munmap(some, PAGES * HUGE) == 0 && munmap(fixed, HUGE) == 0 && munmap(kept, PAGES * HUGE) == 0);
    return ok();
}
