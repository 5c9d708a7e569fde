/* Threads that wait in system calls without a time limit while the process is carried: each waits on, and ends as it is to when what it waits for comes. Those that
 * signal(7) has end with EINTR after a stop may do that, and nothing else. */
#include "prog.h"
#include <linux/futex.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

enum { HANDLED = 6, TAKEN = 7, FULL = 4096 }; /* behind SIGRTMIN */

static int counter, of_epoll, watched, of_poll[2], of_select[2], of_splice[2], to_splice[2], full[2], pair[2], notify, signals, watch, locked, other_lock;
static int word, words[2];
static pthread_mutex_t inheriting;
static char directory[] = "/tmp/carry_calls.XXXXXX", fifo[PATH_MAX], touched[PATH_MAX];
static __thread volatile int handled;

static void on_signal(int sig)
{
    check(sig == SIGRTMIN + HANDLED);
    handled++;
}

static int blocks(int sig)
{
    sigset_t set;
    check(pthread_sigmask(SIG_BLOCK, NULL, &set) == 0);
    return sigismember(&set, sig);
}

/* Until then it is blocked. */
static sigset_t all_but_handled(void)
{
    sigset_t set;
    sigfillset(&set);
    sigdelset(&set, SIGRTMIN + HANDLED);
    sigdelset(&set, SIGALRM);
    return set;
}

static void reads(void)
{
    uint64_t count;
    check(read(counter, &count, 8) == 8 && count == 9);
}
static void writes(void)
{
    static char more[FULL];
    memset(more, 'm', FULL);
    check(write(full[1], more, FULL) == FULL);
}
static void receives(void)
{
    char text[8];
    check(recv(pair[0], text, sizeof text, 0) == 4 && memcmp(text, "sent", 4) == 0);
}
static void waits_for_events(void)
{
    struct epoll_event event;
    int got;
    while ((got = epoll_wait(of_epoll, &event, 1, -1)) == -1 && errno == EINTR)
        ;
    check(got == 1 && event.data.u64 == 77);
}
static void waits_for_events_masked(void)
{
    struct epoll_event event;
    sigset_t set = all_but_handled();
    while (!handled)
        check(epoll_pwait(of_epoll, &event, 1, -1, &set) == -1 && errno == EINTR);
    check(blocks(SIGRTMIN + HANDLED));
}
static void polls(void)
{
    struct pollfd one = {.fd = of_poll[0], .events = POLLIN};
    check(poll(&one, 1, -1) == 1 && one.revents == POLLIN);
}
static void polls_masked(void)
{
    struct pollfd one = {.fd = watched, .events = POLLIN};
    sigset_t set = all_but_handled();
    check(ppoll(&one, 1, NULL, &set) == -1 && errno == EINTR && handled == 1 && blocks(SIGRTMIN + HANDLED));
}
static void selects(void)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(of_select[0], &set);
    check(select(of_select[0] + 1, &set, NULL, NULL, NULL) == 1 && FD_ISSET(of_select[0], &set));
}
static void suspends(void)
{
    sigset_t set = all_but_handled();
    check(sigsuspend(&set) == -1 && errno == EINTR && handled == 1 && blocks(SIGRTMIN + HANDLED) && !blocks(SIGURG));
}
static void pauses(void)
{
    sigset_t set = set_of(SIGRTMIN + HANDLED);
    check(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0);
    check(pause() == -1 && errno == EINTR && handled == 1);
}
static void waits_for_a_signal(void)
{
    sigset_t set = set_of(SIGRTMIN + TAKEN);
    siginfo_t info;
    int got;
    while ((got = sigwaitinfo(&set, &info)) == -1 && errno == EINTR)
        ;
    check(got == SIGRTMIN + TAKEN && info.si_code == SI_QUEUE && info.si_value.sival_int == 4711);
}
/* It may not have come to wait again when that happens. */
static void waits_for_a_futex(void)
{
    long got = syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, 0, NULL, NULL, 2);
    check((got == 0 || (got == -1 && errno == EAGAIN)) && __atomic_load_n(&word, __ATOMIC_ACQUIRE) == 1);
}
/* Linux 5.16. */
static void waits_for_futexes(void)
{
    struct {
        uint64_t value, at;
        uint32_t flags, reserved;
    } both[2] = {{0, (uint64_t)&words[0], 2, 0}, {0, (uint64_t)&words[1], 2, 0}};
    long got = syscall(449, both, 2, 0, NULL, 0);
    check(got == 1 || (got == -1 && (errno == ENOSYS || (errno == EAGAIN && words[1] == 1))));
}
static void locks(void) { check(pthread_mutex_lock(&inheriting) == 0 && pthread_mutex_unlock(&inheriting) == 0); }
static void locks_a_file(void)
{
    struct flock lock = {.l_type = F_WRLCK, .l_len = 1};
    check(fcntl(other_lock, F_OFD_SETLKW, &lock) == 0);
}
static void hears_of_a_file(void)
{
    struct inotify_event event;
    ssize_t n;
    while ((n = read(notify, &event, sizeof event)) == -1 && errno == EINTR)
        ;
    check(n == sizeof event && event.mask == IN_ATTRIB);
}
static void reads_signals(void)
{
    struct signalfd_siginfo info;
    check(read(signals, &info, sizeof info) == sizeof info && info.ssi_signo == SIGUSR2);
}
static void splices(void) { check(splice(of_splice[0], NULL, to_splice[1], NULL, 100, 0) == 7); }
static void opens(void)
{
    int fd = open(fifo, O_RDONLY | O_CLOEXEC);
    check(fd >= 0 && close(fd) == 0);
}

static const struct {
    void (*waits)(void);
    int signalled;
} ways[] = {{reads, 0},    {writes, 0}, {receives, 0}, {waits_for_events, 0}, {waits_for_events_masked, 1}, {polls, 0},           {polls_masked, 1},
            {selects, 0},  {suspends, 1},  {pauses, 1},  {waits_for_a_signal, 0},   {waits_for_a_futex, 0}, {waits_for_futexes, 0}, {locks, 0},
            {locks_a_file, 0}, {hears_of_a_file, 0}, {reads_signals, 0}, {splices, 0},   {opens, 0}};
enum { WAYS = sizeof ways / sizeof *ways };

static struct {
    pthread_t thread;
    pid_t tid;
    int over;
} all[WAYS];

static void *run(void *arg)
{
    int way = (int)(intptr_t)arg;
    __atomic_store_n(&all[way].tid, gettid(), __ATOMIC_RELEASE);
    ways[way].waits();
    __atomic_store_n(&all[way].over, 1, __ATOMIC_RELEASE);
    return NULL;
}

static int sleeps(pid_t tid)
{
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)tid);
    int fd = open(path, O_RDONLY);
    check(fd >= 0 && read(fd, text, sizeof text - 1) > 0 && close(fd) == 0);
    return strrchr(text, ')')[2] == 'S';
}

static int made(int fd)
{
    check(fd >= 0);
    return fd;
}

int main(int argc, char **argv)
{
    begin_carried(argc, argv);
    static char much[FULL], text[FULL];
    struct sigaction act = {.sa_handler = on_signal};
    check(sigaction(SIGRTMIN + HANDLED, &act, NULL) == 0);
    block(SIGRTMIN + HANDLED), block(SIGRTMIN + TAKEN), block(SIGUSR2);
    sigset_t of_signals = set_of(SIGUSR2);
    counter = made(eventfd(0, 0)), watched = made(eventfd(0, 0)), of_epoll = made(epoll_create1(0)), signals = made(signalfd(-1, &of_signals, 0));
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.u64 = 77};
    check(epoll_ctl(of_epoll, EPOLL_CTL_ADD, watched, &event) == 0);
    check(pipe(of_poll) == 0 && pipe(of_select) == 0 && pipe(of_splice) == 0 && pipe(to_splice) == 0 && pipe(full) == 0);
    check(fcntl(full[1], F_SETPIPE_SZ, FULL) == FULL && write(full[1], much, FULL) == FULL && socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
    pthread_mutexattr_t attributes;
    check(pthread_mutexattr_init(&attributes) == 0 && pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT) == 0);
    check(pthread_mutex_init(&inheriting, &attributes) == 0 && pthread_mutex_lock(&inheriting) == 0);
    check(mkdtemp(directory));
    snprintf(fifo, sizeof fifo, "%s/fifo", directory);
    snprintf(touched, sizeof touched, "%s/file", directory);
    check(mkfifo(fifo, 0600) == 0);
    watch = made(open(touched, O_CREAT | O_RDWR, 0600)), notify = made(inotify_init1(0));
    /* An exclusive lock of a file that others can open keeps a process where it is. */
    locked = made(memfd_create("locked", 0));
    snprintf(text, sizeof text, "/proc/self/fd/%d", locked);
    other_lock = made(open(text, O_RDWR));
    struct flock lock = {.l_type = F_WRLCK, .l_len = 1};
    check(fcntl(locked, F_OFD_SETLK, &lock) == 0 && inotify_add_watch(notify, touched, IN_ATTRIB) == 1);
    for (int i = 0; i < WAYS; i++)
        check(pthread_create(&all[i].thread, NULL, run, (void *)(intptr_t)i) == 0);
    for (int i = 0; i < WAYS; i++) {
        until(__atomic_load_n(&all[i].tid, __ATOMIC_ACQUIRE));
        until(sleeps(all[i].tid));
    }

    phase();

    /* Nothing has come yet. */
    for (int i = 0; i < WAYS; i++)
        check(!__atomic_load_n(&all[i].over, __ATOMIC_ACQUIRE));
    for (int i = 0; i < WAYS; i++)
        if (ways[i].signalled)
            check(tgkill(getpid(), all[i].tid, SIGRTMIN + HANDLED) == 0);
    for (int i = 0; i < WAYS; i++)
        if (ways[i].signalled)
            check(pthread_join(all[i].thread, NULL) == 0);
    uint64_t count = 9;
    check(write(counter, &count, 8) == 8 && write(watched, &count, 8) == 8 && write(of_poll[1], "x", 1) == 1 && write(of_select[1], "x", 1) == 1);
    for (size_t got = 0; got < 2 * FULL;) {
        ssize_t n = read(full[0], text, FULL);
        check(n > 0 && text[0] == (got < FULL ? 0 : 'm') && text[n - 1] == (got + (size_t)n <= FULL ? 0 : 'm'));
        got += (size_t)n;
    }
    check(send(pair[1], "sent", 4, 0) == 4 && write(of_splice[1], "spliced", 7) == 7 && read(to_splice[0], text, 100) == 7);
    check(kill(getpid(), SIGUSR2) == 0 && sigqueue(getpid(), SIGRTMIN + TAKEN, (union sigval){.sival_int = 4711}) == 0);
    __atomic_store_n(&word, 1, __ATOMIC_RELEASE);
    __atomic_store_n(&words[1], 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &word, FUTEX_WAKE_BITSET, 1, NULL, NULL, 2);
    syscall(SYS_futex, &words[1], FUTEX_WAKE, 1, NULL, NULL, 0);
    check(pthread_mutex_unlock(&inheriting) == 0);
    lock.l_type = F_UNLCK;
    check(fcntl(locked, F_OFD_SETLK, &lock) == 0 && fchmod(watch, 0640) == 0);
    int fd = open(fifo, O_WRONLY);
    check(fd >= 0 && close(fd) == 0);
    for (int i = 0; i < WAYS; i++)
        if (!ways[i].signalled)
            check(pthread_join(all[i].thread, NULL) == 0);
    check(unlink(fifo) == 0 && unlink(touched) == 0 && rmdir(directory) == 0);
    return ok();
}
