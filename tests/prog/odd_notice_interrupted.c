/* A call about which a seccomp listener is asked (SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV) is ended by a signal that has a handler as long as nobody has received the notice: it is made
 * again with SA_RESTART, and returns EINTR without, also where the call never does (kill). From when it is received only a deadly signal ends it. */
#include "prog.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

struct shared {
    int handled, returned, error;
};
static volatile struct shared *shared;

static void note(int sig)
{
    (void)sig;
    shared->handled++;
}

/* The listener of a filter that asks about kill with signal 0. */
static int install(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_kill, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {.len = sizeof code / sizeof *code, .filter = code};
    check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    unsigned long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter);
}

static int in_state(pid_t pid, char state)
{
    char path[64], text[512], found = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int file = open(path, O_RDONLY);
    ssize_t got = read(file, text, sizeof text - 1);
    close(file);
    text[got < 0 ? 0 : got] = 0;
    char *close_paren = strrchr(text, ')');
    if (close_paren)
        found = close_paren[2];
    return found == state;
}

static void one(int listener, int flags, int received)
{
    *shared = (struct shared){0};
    pid_t pid = fork_child();
    if (pid == 0) {
        struct sigaction action = {.sa_handler = note, .sa_flags = flags};
        check(sigaction(SIGUSR1, &action, NULL) == 0);
        shared->error = kill(getpid(), 0) == 0 ? 0 : errno;
        shared->returned = 1;
        _exit(0);
    }
    struct seccomp_notif notice = {0};
    until(in_state(pid, 'S'));
    if (received)
        check(ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &notice) == 0);
    check(kill(pid, SIGUSR1) == 0);
    int interrupted = !received && !(flags & SA_RESTART);
    if (interrupted) {
        until(shared->returned);
        check(shared->handled == 1 && shared->error == EINTR);
    } else {
        if (received) {
            struct timespec bit = {.tv_nsec = 100 * 1000 * 1000};
            nanosleep(&bit, NULL);
            check(!shared->handled && !shared->returned);
        } else {
            until(shared->handled == 1);
            check(ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &notice) == 0);
        }
        struct seccomp_notif_resp answer = {.id = notice.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
        check(ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer) == 0);
        until(shared->returned);
        check(shared->error == 0);
    }
    check(exited(wait_status(pid), 0));
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(shared != MAP_FAILED);
    int listener = install();
    check(listener >= 0);
    one(listener, 0, 0);
    one(listener, SA_RESTART, 0);
    one(listener, 0, 1);
    return ok();
}
