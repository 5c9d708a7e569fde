/* What each thread has forbidden or asked of the processor for itself: speculation past stores, the time stamp counter, when memory that fails kills it. */
#include "prog.h"
#include <sys/prctl.h>

static pthread_barrier_t ready, done;
static int can_forbid;

static int past_stores(void)
{
    return prctl(PR_GET_SPECULATION_CTRL, PR_SPEC_STORE_BYPASS, 0, 0, 0);
}

static int counter(void)
{
    int mode = 0;
    check(prctl(PR_GET_TSC, &mode) == 0);
    return mode;
}

static int memory_fails(void)
{
    return prctl(PR_MCE_KILL_GET, 0, 0, 0, 0);
}

static void *other(void *arg)
{
    (void)arg;
    check(prctl(PR_SET_TSC, PR_TSC_SIGSEGV) == 0 && prctl(PR_MCE_KILL, PR_MCE_KILL_SET, PR_MCE_KILL_LATE, 0, 0) == 0);
    pthread_barrier_wait(&ready);
    pthread_barrier_wait(&done);
    check(counter() == PR_TSC_SIGSEGV && memory_fails() == PR_MCE_KILL_LATE);
    check(!can_forbid || past_stores() == (PR_SPEC_PRCTL | PR_SPEC_ENABLE));
    return NULL;
}

int main(int argc, char **argv)
{
    begin_carried(argc, argv);
    pthread_t thread;
    check(pthread_barrier_init(&ready, NULL, 2) == 0 && pthread_barrier_init(&done, NULL, 2) == 0);
    can_forbid = past_stores() == (PR_SPEC_PRCTL | PR_SPEC_ENABLE);
    int was = memory_fails();
    check(pthread_create(&thread, NULL, other, NULL) == 0);
    pthread_barrier_wait(&ready);
    if (can_forbid)
        check(prctl(PR_SET_SPECULATION_CTRL, PR_SPEC_STORE_BYPASS, PR_SPEC_FORCE_DISABLE, 0, 0) == 0);
    check(prctl(PR_MCE_KILL, PR_MCE_KILL_SET, PR_MCE_KILL_EARLY, 0, 0) == 0);

    phase();

    check(memory_fails() == PR_MCE_KILL_EARLY && counter() == PR_TSC_ENABLE);
    check(!can_forbid || past_stores() == (PR_SPEC_PRCTL | PR_SPEC_FORCE_DISABLE));
    check(prctl(PR_MCE_KILL, PR_MCE_KILL_SET, was, 0, 0) == 0);
    check(prctl(PR_SET_TSC, PR_TSC_SIGSEGV) == 0);

    phase();

    check(memory_fails() == was && counter() == PR_TSC_SIGSEGV);
    check(prctl(PR_SET_TSC, PR_TSC_ENABLE) == 0);
    pthread_barrier_wait(&done);
    check(pthread_join(thread, NULL) == 0);
    return ok();
}
