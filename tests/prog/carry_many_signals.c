/* More signals that wait than fit one script: for the process, and for one of its threads. */
#include "prog.h"

enum { MANY = 8000 };

static void queue(int number)
{
    for (int i = 0; i < MANY; i++)
        check(sigqueue(getpid(), number, (union sigval){.sival_int = i}) == 0);
}

static void queue_to_thread(int number)
{
    for (int i = 0; i < MANY; i++) {
        siginfo_t info = {.si_code = SI_QUEUE, .si_pid = getpid(), .si_uid = getuid()};
        info.si_signo = number;
        info.si_value.sival_int = i;
        check(syscall(SYS_rt_tgsigqueueinfo, getpid(), (int)syscall(SYS_gettid), number, &info) == 0);
    }
}

static void come_in_order(int number)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    struct timespec at_once = {0, 0};
    for (int i = 0; i < MANY; i++) {
        siginfo_t info;
        check(sigtimedwait(&set, &info, &at_once) == number && info.si_value.sival_int == i);
    }
    check(sigtimedwait(&set, NULL, &at_once) == -1 && errno == EAGAIN);
}

int main(int argc, char **argv)
{
    begin_carried(argc, argv);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    sigaddset(&set, SIGRTMIN + 1);
    check(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    struct rlimit limit;
    check(getrlimit(RLIMIT_SIGPENDING, &limit) == 0 && limit.rlim_cur > 4 * MANY);
    queue(SIGRTMIN);
    queue_to_thread(SIGRTMIN + 1);

    phase();

    come_in_order(SIGRTMIN);
    come_in_order(SIGRTMIN + 1);
    return ok();
}
