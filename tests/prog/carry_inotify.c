/* inotify watches keep their numbers, masks and files; whom a descriptor signals, and by what, stays. */
#include "prog.h"
#include <sys/inotify.h>
#include <sys/socket.h>

static volatile int got_fd = -1, got_thread;

static void on_signal(int sig, siginfo_t *info, void *context)
{
    (void)sig, (void)context;
    got_fd = info->si_fd;
    got_thread = gettid();
}

static pid_t reader_tid;
static int done;

static void *other_thread(void *arg)
{
    __atomic_store_n(&reader_tid, gettid(), __ATOMIC_RELEASE);
    while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE))
        usleep(1000);
    return arg;
}

/* One event, with a name of at most 15 bytes or without. */
static struct inotify_event *next(int fd)
{
    static char room[4096] __attribute__((aligned(8)));
    ssize_t n = read(fd, room, sizeof(struct inotify_event));
    if (n == -1 && errno == EINVAL) /* it has a name */
        n = read(fd, room, sizeof(struct inotify_event) + 16);
    check(n > 0);
    return (struct inotify_event *)room;
}

int main(int argc, char **argv)
{
    char directory[] = "/tmp/carry_inotify.XXXXXX", file[PATH_MAX], other[PATH_MAX];
    int ends[2];
    begin_carried(argc, argv);
    check(mkdtemp(directory));
    snprintf(file, sizeof file, "%s/file", directory);
    snprintf(other, sizeof other, "%s/other", directory);
    int fd = open(file, O_CREAT | O_RDWR, 0600), notify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC), empty = inotify_init();
    check(fd >= 0 && notify >= 0 && empty >= 0);
    for (int i = 1; i <= 5; i++) { /* so that numbers are not 1, 2, 3 */
        check(inotify_add_watch(notify, directory, IN_CREATE) == i && inotify_rm_watch(notify, i) == 0);
        check(next(notify)->mask == IN_IGNORED);
    }
    int of_directory = inotify_add_watch(notify, directory, IN_CREATE | IN_DELETE | IN_EXCL_UNLINK);
    int of_file = inotify_add_watch(notify, file, IN_MODIFY | IN_ONESHOT), of_root = inotify_add_watch(notify, "/", IN_DELETE_SELF);
    check(of_directory == 6 && of_file == 7 && of_root == 8 && inotify_rm_watch(notify, of_root) == 0);
    check(next(notify)->wd == of_root);
    struct sigaction act = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    pthread_t thread;
    check(sigaction(SIGRTMIN + 1, &act, NULL) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    check(pthread_create(&thread, NULL, other_thread, NULL) == 0);
    until(__atomic_load_n(&reader_tid, __ATOMIC_ACQUIRE));
    struct f_owner_ex owner = {F_OWNER_TID, reader_tid}, now = {0, 0};
    check(fcntl(ends[0], F_SETOWN_EX, &owner) == 0 && fcntl(ends[0], F_SETSIG, SIGRTMIN + 1) == 0);
    check(fcntl(ends[0], F_SETFL, O_ASYNC | O_NONBLOCK) == 0);
    check(fcntl(notify, F_SETOWN, getpid()) == 0);

    phase();

    check(fcntl(notify, F_GETFL) & O_NONBLOCK && fcntl(notify, F_GETFD) == FD_CLOEXEC && fcntl(notify, F_GETOWN) == getpid());
    check(read(notify, other, 1) == -1 && errno == EAGAIN);
    check(write(fd, "x", 1) == 1);
    struct inotify_event *event = next(notify);
    check(event->wd == of_file && event->mask == IN_MODIFY);
    check(next(notify)->mask == IN_IGNORED); /* it was for one event */
    int made = open(other, O_CREAT | O_RDWR, 0600);
    check(made >= 0 && close(made) == 0);
    event = next(notify);
    check(event->wd == of_directory && event->mask == IN_CREATE && strcmp(event->name, "other") == 0);
    check(unlink(other) == 0 && next(notify)->mask == IN_DELETE);
    check(inotify_add_watch(notify, directory, IN_MOVE | IN_MASK_ADD) == of_directory);
    check(inotify_add_watch(empty, directory, IN_CREATE) == 1);
    check(fcntl(ends[0], F_GETOWN_EX, &now) == 0 && now.type == F_OWNER_TID && now.pid == owner.pid);
    check(fcntl(ends[0], F_GETSIG) == SIGRTMIN + 1 && (fcntl(ends[0], F_GETFL) & (O_ASYNC | O_NONBLOCK)) == (O_ASYNC | O_NONBLOCK));
    check(write(ends[1], "x", 1) == 1);
    until(got_fd == ends[0] && got_thread == owner.pid);
    __atomic_store_n(&done, 1, __ATOMIC_RELEASE);
    check(pthread_join(thread, NULL) == 0 && unlink(file) == 0 && rmdir(directory) == 0);
    return ok();
}
