/* As soon as the machine is another one, before much of the memory can be there: system calls use it, several threads, and it is moved,
 * unmapped and thrown away. All of it is what it was. With AHEAD_FORKS in its environment, a child too. */
#include "prog.h"
#include <sys/mman.h>
#include <sys/utsname.h>

enum { PAGE = 4096, BLOCKS = 6, BLOCK = 8 << 20, PAGES = BLOCK / PAGE, SOME = 16, THREADS = 3 };

static char *blocks[BLOCKS];
static uint32_t version[BLOCKS][PAGES]; /* 0: zeroes */
static volatile int enough, journeys;
static uint64_t seed = 88172645463325252ull;

static uint64_t next_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

static uint64_t stamp_of(int b, int p) { return version[b][p] ? ((uint64_t)version[b][p] << 32 | (uint32_t)(b * PAGES + p)) : 0; }

static void stamp(int b, int p)
{
    version[b][p]++;
    uint64_t *page = (uint64_t *)(blocks[b] + (size_t)p * PAGE);
    page[0] = page[PAGE / 8 - 1] = stamp_of(b, p);
}

static int is_right(int b, int p)
{
    const uint64_t *page = (const uint64_t *)(blocks[b] + (size_t)p * PAGE);
    return page[0] == stamp_of(b, p) && page[PAGE / 8 - 1] == stamp_of(b, p) && page[PAGE / 16] == 0;
}

static void all_right(int step)
{
    for (int b = 0; b < BLOCKS; b++)
        for (int p = 0; p < PAGES; p += step)
            if (!is_right(b, p)) {
                const uint64_t *page = (const uint64_t *)(blocks[b] + (size_t)p * PAGE);
                int wrong = 0;
                for (int q = 0; q < PAGES; q++)
                    wrong += !is_right(b, q);
                fprintf(stderr, "step %d, journey %d, block %d, page %d at %p: %#lx, %#lx, %#lx, not %#lx; %d wrong in it\n", step, journeys, b, p,
                        (const void *)page, page[0], page[PAGE / 16], page[PAGE / 8 - 1], stamp_of(b, p), wrong);
                check(0);
            }
}

static char *map(void *at)
{
    char *made = mmap(at, BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(made != MAP_FAILED);
    return made;
}

/* The kernel reads from it and writes into it. */
static void by_calls(void)
{
    int ends[2], from = (int)(next_random() % PAGES), to = (int)(next_random() % PAGES);
    char *into = blocks[1] + (size_t)to * PAGE;
    check(pipe(ends) == 0);
    check(write(ends[1], blocks[0] + (size_t)from * PAGE, 8) == 8 && write(ends[1], "kernel", 6) == 6);
    uint64_t got;
    check(read(ends[0], &got, 8) == 8 && got == stamp_of(0, from));
    check(read(ends[0], into + 100, 6) == 6 && memcmp(into + 100, "kernel", 6) == 0);
    check(is_right(1, to));
    memset(into + 100, 0, 6);
    struct timespec *pause = (struct timespec *)(blocks[2] + (size_t)to * PAGE + 64);
    *pause = (struct timespec){.tv_nsec = 1000};
    check(nanosleep(pause, pause) == 0);
    memset(pause, 0, sizeof *pause);
    close(ends[0]);
    close(ends[1]);
}

static void by_a_child(void)
{
    int status;
    pid_t child = fork();
    check(child >= 0);
    if (child == 0) {
        all_right(37);
        stamp(3, 5); /* it is the child's own */
        all_right(41);
        _exit(0);
    }
    all_right(43);
    check(waitpid(child, &status, 0) == child && status == 0);
    check(is_right(3, 5));
}

static void elsewhere(void)
{
    char *to = map(NULL), *from = blocks[4];
    check(mremap(from, BLOCK, BLOCK, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
    blocks[4] = to;
    for (int p = 0; p < PAGES; p += 29)
        check(is_right(4, p));
    /* What is mapped there now is new. */
    char *anew = mmap(from, BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    check(anew == from);
    for (int p = 0; p < PAGES; p += 31)
        check(anew[(size_t)p * PAGE] == 0);
    check(munmap(anew, BLOCK) == 0);
}

static void thrown_away(int again)
{
    int p = (int)(next_random() % (PAGES - SOME));
    char *at = blocks[5] + (size_t)p * PAGE;
    if (again)
        check(madvise(at, SOME * PAGE, MADV_DONTNEED) == 0);
    else
        check(mmap(at, SOME * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
    for (int i = 0; i < SOME; i++) {
        uint32_t was = version[5][p + i];
        version[5][p + i] = 0;
        check(is_right(5, p + i));
        version[5][p + i] = was;
        if (i % 2)
            stamp(5, p + i);
        else
            version[5][p + i] = 0;
    }
}

/* What was one mapping is three. */
static void split(int protection)
{
    static int p;
    if (protection == PROT_READ)
        p = (int)(next_random() % PAGES);
    check(mprotect(blocks[2] + (size_t)p * PAGE, PAGE, protection) == 0);
}

static void *look(void *step)
{
    all_right((int)(intptr_t)step);
    return NULL;
}

static void everything(void)
{
    pthread_t threads[THREADS];
    by_calls();
    split(PROT_READ);
    if (getenv("AHEAD_FORKS"))
        by_a_child();
    elsewhere();
    thrown_away(0);
    thrown_away(1);
    for (int i = 0; i < THREADS; i++)
        check(pthread_create(&threads[i], NULL, look, (void *)(intptr_t)(5 + i)) == 0);
    for (int i = 0; i < THREADS; i++)
        check(pthread_join(threads[i], NULL) == 0);
    all_right(1);
    split(PROT_READ | PROT_WRITE);
    for (int i = 0; i < 200; i++) {
        int b = (int)(next_random() % BLOCKS), p = (int)(next_random() % PAGES);
        stamp(b, p);
    }
}

static void *traveller(void *unused)
{
    struct utsname before, now;
    (void)unused;
    check(uname(&before) == 0);
    while (!enough) {
        check(uname(&now) == 0);
        if (strcmp(now.nodename, before.nodename) != 0) {
            before = now;
            everything();
            journeys++;
        }
        usleep(200);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    begin(argc, argv);
    for (int b = 0; b < BLOCKS; b++) {
        blocks[b] = map(NULL);
        for (int p = 0; p < PAGES; p++)
            if (p % 7)
                stamp(b, p);
    }
    check(pthread_create(&thread, NULL, traveller, NULL) == 0);
    phase();
    phase();
    enough = 1;
    check(pthread_join(thread, NULL) == 0);
    everything();
    return ok();
}
