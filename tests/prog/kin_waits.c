/* Threads that wait for a child, by its number, its group or any, while they, the child or both are carried about: they hear of what becomes of it once it does. */
#include "prog.h"

enum { TO_EXIT = SIGUSR1, WAYS = 3 };

static pid_t child;

static pid_t by_number(int *status) { return waitpid(child, status, 0); }
static pid_t any(int *status) { return wait4(-1, status, __WALL, NULL); }
static pid_t by_group(int *status)
{
    siginfo_t info = {0};
    int got = waitid(P_PGID, (id_t)child, &info, WEXITED);
    if (got == 0)
        *status = info.si_code == CLD_EXITED ? info.si_status << 8 : info.si_status;
    return got == 0 ? info.si_pid : -1;
}
static pid_t (*const ways[WAYS])(int *) = {by_number, any, by_group};

static volatile int told, status_told;
static pid_t waiter;

static void *waits(void *way)
{
    int status = 0;
    __atomic_store_n(&waiter, gettid(), __ATOMIC_RELEASE);
    pid_t got = ways[(intptr_t)way](&status);
    check(got == child);
    status_told = status;
    __atomic_store_n(&told, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void begin_child(void)
{
    child = fork_child();
    if (child == 0) {
        sigset_t set = set_of(TO_EXIT);
        int null = open("/dev/null", O_RDWR);
        for (int fd = 0; fd < 3; fd++)
            check(dup2(null, fd) == fd);
        close(null);
        alarm(120);
        check(setpgid(0, 0) == 0 && kill(getppid(), SIGRTMIN) == 0);
        while (sigwaitinfo(&set, NULL) == -1)
            check(errno == EINTR);
        _exit(7);
    }
    take(SIGRTMIN);
}

int main(int argc, char **argv)
{
    begin_carried(argc, argv);
    alarm(120);
    block(SIGRTMIN);
    block(TO_EXIT);
    pid_t own = getpid();
    for (int turn = 0; turn < 2 * WAYS; turn++) {
        pthread_t thread;
        told = waiter = 0;
        begin_child();
        check(pthread_create(&thread, NULL, waits, (void *)(intptr_t)(turn % WAYS)) == 0);
        until(__atomic_load_n(&waiter, __ATOMIC_ACQUIRE));
        usleep(20000);
        if (turn % 2)
            phase_of((pid_t[]){own, child}, 2);
        else
            phase_of(turn % 4 ? &child : &own, 1);
        check(!told);
        check(turn < WAYS ? kill(child, TO_EXIT) == 0 : kill(child, SIGKILL) == 0);
        check(pthread_join(thread, NULL) == 0 && told);
        check(turn < WAYS ? exited(status_told, 7) : killed(status_told, SIGKILL));
        check(wait(NULL) == -1 && errno == ECHILD);
    }
    return ok();
}
