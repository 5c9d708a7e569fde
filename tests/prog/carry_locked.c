/* All that the process maps from now on is locked, at once or as it is used (mlockall(2)): also what it maps after a journey. */
#include "prog.h"
#include <sys/mman.h>

enum { PAGE = 4096, PAGES = 64 };

static char *map(void)
{
    char *at = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(at != MAP_FAILED);
    return at;
}

static int in_memory(char *at)
{
    unsigned char pages[PAGES];
    int there = 0;
    check(mincore(at, PAGES * PAGE, pages) == 0);
    for (int i = 0; i < PAGES; i++)
        there += pages[i] & 1;
    return there;
}

int main(int argc, char **argv)
{
    begin_carried(argc, argv);
    struct rlimit limit;
    check(getrlimit(RLIMIT_MEMLOCK, &limit) == 0);
    if (geteuid() != 0 && limit.rlim_cur != RLIM_INFINITY)
        return ok();
    int as_used = tells_what_is_locked_as_used();
    char *before = map();
    check(mlockall(MCL_FUTURE) == 0);

    phase();

    char *at_once = map();
    check(!has_flag(before, " lo") && has_flag(at_once, " lo") && !has_flag(at_once, " lf") && in_memory(at_once) == PAGES);
    check(mlockall(MCL_FUTURE | MCL_ONFAULT) == 0);

    phase();

    char *when_used = map();
    check(has_flag(when_used, " lo") && has_flag(when_used, " lf") == as_used && (in_memory(when_used) == 0 || !as_used));
    check(has_flag(at_once, " lo") && !has_flag(at_once, " lf"));
    check(munlockall() == 0);

    phase();

    char *after = map();
    check(!has_flag(after, " lo") && !has_flag(at_once, " lo"));
    return ok();
}
