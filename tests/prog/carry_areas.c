/* Sorts of memory that few have: guards, a stack that grows, memory that may be dropped, habits of prctl(2). */
#include "prog.h"
#include <setjmp.h>
#include <sys/mman.h>

#ifndef MAP_DROPPABLE
#define MAP_DROPPABLE 8
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif
enum { PAGE = 4096, ON_FAULT = 1 << 20, GET_MDWE = 66, SET_MDWE = 65 };

static sigjmp_buf back;

static void on_fault(int sig)
{
    (void)sig;
    siglongjmp(back, 1);
}

static int faults(volatile char *at)
{
    if (sigsetjmp(back, 1))
        return 1;
    *at = 'x';
    return 0;
}

static char *map(size_t length, int flags)
{
    char *at = mmap(NULL, length, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

/* Uses a megabyte of stack. */
static int deep(int depth)
{
    volatile char room[PAGE];
    room[0] = room[PAGE - 1] = 1;
    return depth == 0 ? 1 : deep(depth - 1) + room[0] - room[PAGE - 1];
}

int main(int argc, char **argv)
{
    begin_carried(argc, argv);
    struct sigaction act = {.sa_handler = on_fault};
    check(sigaction(SIGSEGV, &act, NULL) == 0);
    char *guarded = map(20 * PAGE, MAP_PRIVATE), *locked = map(4 * PAGE, MAP_PRIVATE);
    memset(guarded, 'g', 20 * PAGE);
    int guards = madvise(guarded + 3 * PAGE, 2 * PAGE, MADV_GUARD_INSTALL) == 0 && madvise(guarded + 19 * PAGE, PAGE, MADV_GUARD_INSTALL) == 0;
    guards = guards && madvise(locked + PAGE, PAGE, MADV_GUARD_INSTALL) == 0;
    check(locked && (mlock(locked, 4 * PAGE) == 0 || guards)); /* it is locked up to the guard */
    char *on_fault = map(ON_FAULT, MAP_PRIVATE), *in_order = map(PAGE, MAP_PRIVATE), *anywhere = map(PAGE, MAP_PRIVATE), *small = map(PAGE, MAP_PRIVATE);
    check(mlock2(on_fault, ON_FAULT, MLOCK_ONFAULT) == 0 && strcpy(on_fault + (ON_FAULT / 2), "touched"));
    int as_used = tells_what_is_locked_as_used();
    check(madvise(in_order, PAGE, MADV_SEQUENTIAL) == 0 && madvise(anywhere, PAGE, MADV_RANDOM) == 0);
    int no_huge = madvise(small, PAGE, MADV_NOHUGEPAGE) == 0;
    int zero = open("/dev/zero", O_RDWR);
    char *of_zero = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, zero, 0), *shared_zero = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, zero, 0);
    check(of_zero != MAP_FAILED && shared_zero != MAP_FAILED && close(zero) == 0);
    strcpy(of_zero, "private zeroes");
    strcpy(shared_zero, "shared zeroes");
    char *droppable = map(2 * PAGE, MAP_DROPPABLE);
    if (droppable)
        strcpy(droppable, "dropped?");
    char *room = map(300 * PAGE, MAP_PRIVATE); /* below it nothing, so that it can grow; nothing that is mapped from here on fits in there */
    check(room && munmap(room, 300 * PAGE) == 0);
    char *grows = mmap(room + 298 * PAGE, 2 * PAGE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_FIXED, -1, 0);
    check(grows == room + 298 * PAGE && strcpy(grows, "bottom"));
    static char *reserved[30];
    for (int i = 0; i < 30; i++) { /* nobody walks through these */
        reserved[i] = mmap(NULL, 100UL << 30, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        check(reserved[i] != MAP_FAILED && mprotect(reserved[i] + (50UL << 30), PAGE, PROT_READ | PROT_WRITE) == 0);
        reserved[i][50UL << 30] = (char)i;
    }
    check(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0);
    int mdwe = prctl(SET_MDWE, 1, 0, 0, 0) == 0;

    phase();

    for (int page = 0; page < 20; page++) {
        int guard = guards && (page == 3 || page == 4 || page == 19);
        check(guard || guarded[page * PAGE] == 'g');
        check(faults(guarded + page * PAGE + 1) == guard);
    }
    check(!guards || (faults(locked + PAGE) && !faults(locked) && madvise(guarded + 3 * PAGE, PAGE, MADV_GUARD_REMOVE) == 0));
    check(!guards || (guarded[3 * PAGE] == 0 && faults(guarded + 4 * PAGE)));
    check(has_flag(locked, " lo") && has_flag(grows, " gd") && deep(250) == 1);
    check(strcmp(grows, "bottom") == 0);
    check(!faults(grows - 1));
    check(!faults(grows - PAGE - 1));
    check(has_flag(grows - 2 * PAGE, " gd"));
    if (droppable)
        check(has_flag(droppable, " dp") && has_flag(droppable, " wf") && (droppable[0] == 0 || strcmp(droppable, "dropped?") == 0));
    for (int i = 0; i < 30; i++)
        check(reserved[i][50UL << 30] == (char)i && faults(reserved[i]));
    unsigned char in_memory[ON_FAULT / PAGE];
    int there = 0;
    check(has_flag(on_fault, " lo") && has_flag(on_fault, " lf") == as_used && mincore(on_fault, ON_FAULT, in_memory) == 0);
    for (size_t i = 0; i < sizeof in_memory; i++)
        there += in_memory[i] & 1;
    check((there <= 64 || !as_used) && strcmp(on_fault + (ON_FAULT / 2), "touched") == 0); /* a large page at most */
    check(has_flag(in_order, " sr") && has_flag(anywhere, " rr") && (!no_huge || has_flag(small, " nh")));
    check(strcmp(of_zero, "private zeroes") == 0 && strcmp(shared_zero, "shared zeroes") == 0);
    check(of_zero[PAGE] == 0 && shared_zero[PAGE] == 0);
    pid_t child = fork_child();
    if (child == 0) {
        of_zero[0] = shared_zero[0] = 'c';
        _exit(0);
    }
    check(exited(wait_status(child), 0) && of_zero[0] == 'p' && shared_zero[0] == 'c');
    check(prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 1 && (!mdwe || prctl(GET_MDWE, 0, 0, 0, 0) == 1));
    check(!mdwe || mprotect(guarded, PAGE, PROT_READ | PROT_EXEC) == -1);
    return ok();
}
