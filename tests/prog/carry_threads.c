/* Threads keep their TIDs, names, masks, thread-local values, robust mutexes and restartable sequences (rseq(2)), and go on in what they waited for. */
#include "prog.h"
#include <linux/futex.h>
#include <sys/rseq.h>

enum { THREADS = 300 };

static struct one {
    pthread_t thread;
    pid_t tid;
    int go;
    uint64_t mask;
} all[THREADS];
static __thread int own;
static pthread_mutex_t robust, mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t ready;
static int released, dying;

/* The kernel says in its memory on which processor it is, wherever it is sent. */
static void is_told_its_processor(void)
{
    cpu_set_t may, one;
    struct rseq *told = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
    check(sched_getaffinity(0, sizeof may, &may) == 0);
    for (int cpu = 0; cpu < CPU_SETSIZE && __rseq_size; cpu++)
        if (CPU_ISSET(cpu, &may)) {
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            check(sched_setaffinity(0, sizeof one, &one) == 0 && (int)*(volatile unsigned *)&told->cpu_id == cpu);
        }
    check(sched_setaffinity(0, sizeof may, &may) == 0);
}

static void *dies_with_it(void *arg)
{
    (void)arg;
    check(pthread_mutex_lock(&robust) == 0);
    pthread_barrier_wait(&ready);
    while (!__atomic_load_n(&dying, __ATOMIC_ACQUIRE))
        usleep(1000);
    return NULL;
}

static void *run(void *arg)
{
    struct one *one = arg;
    int n = (int)(one - all);
    char name[16], now[16];
    sigset_t set;
    own = n * 7;
    one->tid = gettid();
    snprintf(name, sizeof name, "thread %d", n);
    check(pthread_setname_np(pthread_self(), name) == 0);
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + n % 20);
    check(pthread_sigmask(SIG_SETMASK, &set, NULL) == 0);
    pthread_barrier_wait(&ready);
    if (n % 3 == 0) {
        while (!__atomic_load_n(&one->go, __ATOMIC_ACQUIRE))
            syscall(SYS_futex, &one->go, FUTEX_WAIT, 0, NULL, NULL, 0);
    } else if (n % 3 == 1) {
        pthread_mutex_lock(&mutex);
        while (!released)
            pthread_cond_wait(&cond, &mutex);
        pthread_mutex_unlock(&mutex);
    } else {
        /* Two are busy, and sleep for a moment every few milliseconds: two that never do can keep all ordinary programs of two
         * processors from running for as long as they like, if the weight of their group changes at each tick, as it does with so many
         * other threads in it (sched_autogroup, Linux 6.18: what it lags behind is made larger each time; reweight_entity, place_entity). */
        long turns = 0;
        for (volatile double x = 1; !__atomic_load_n(&one->go, __ATOMIC_ACQUIRE); x = x * 1.0000001)
            if (n > 5)
                usleep(n < 60 ? 5000 : 20000);
            else if (++turns % 2000000 == 0)
                usleep(1);
    }
    is_told_its_processor();
    check(own == n * 7 && gettid() == one->tid && getpid() != gettid());
    check(pthread_getname_np(pthread_self(), now, sizeof now) == 0 && strcmp(now, name) == 0);
    check(pthread_sigmask(SIG_BLOCK, NULL, &set) == 0);
    for (int sig = SIGRTMIN; sig < SIGRTMIN + 20; sig++)
        check(sigismember(&set, sig) == (sig == SIGRTMIN + n % 20));
    return one;
}

int main(int argc, char **argv)
{
    begin_carried(argc, argv);
    pthread_mutexattr_t attr;
    check(pthread_mutexattr_init(&attr) == 0 && pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST) == 0);
    check(pthread_mutex_init(&robust, &attr) == 0);
    check(pthread_barrier_init(&ready, NULL, THREADS + 2) == 0);
    pthread_t dead;
    check(pthread_create(&dead, NULL, dies_with_it, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        check(pthread_create(&all[i].thread, NULL, run, &all[i]) == 0);
    pthread_barrier_wait(&ready);

    phase();

    is_told_its_processor();
    check(pthread_mutex_trylock(&robust) == EBUSY);
    __atomic_store_n(&dying, 1, __ATOMIC_RELEASE);
    check(pthread_join(dead, NULL) == 0);
    check(pthread_mutex_lock(&robust) == EOWNERDEAD && pthread_mutex_consistent(&robust) == 0);
    check(pthread_mutex_unlock(&robust) == 0);
    pthread_mutex_lock(&mutex);
    released = 1;
    pthread_cond_broadcast(&cond);
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        __atomic_store_n(&all[i].go, 1, __ATOMIC_RELEASE);
        if (i % 3 == 0)
            syscall(SYS_futex, &all[i].go, FUTEX_WAKE, 1, NULL, NULL, 0);
        check(pthread_join(all[i].thread, &result) == 0 && result == &all[i]);
    }
    return ok();
}
