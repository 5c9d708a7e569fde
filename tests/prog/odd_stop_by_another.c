/* A SIGSTOP that waits for a process whose first thread is in a killable wait is taken by another thread, as soon as that looks for signals: it
 * waits no more, that thread is stopped, and the first one is not (linux: do_signal_stop; each thread stops when it gets there). */
#include "prog.h"

static int first[2], tids[2];

static void nothing(int sig) { (void)sig; }

/* Looks for signals all the time. */
static void *look_on(void *unused)
{
    pid_t me = gettid();
    check(write(first[1], &me, sizeof me) == sizeof me);
    for (;;)
        raise(SIGUSR1);
    return unused;
}

static int says(pid_t pid, pid_t tid, const char *line)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/task/%d/status", pid, tid);
    int file = open(path, O_RDONLY);
    check(file >= 0);
    ssize_t got = read(file, text, sizeof text - 1);
    check(got > 0);
    close(file);
    text[got] = 0;
    return strstr(text, line) != NULL;
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    check(pipe(first) == 0 && pipe(tids) == 0);
    pid_t pid = fork();
    check(pid >= 0);
    if (pid == 0) {
        pthread_t other;
        signal(SIGUSR1, nothing);
        sigset_t usr;
        sigemptyset(&usr);
        sigaddset(&usr, SIGUSR1);
        check(pthread_create(&other, NULL, look_on, NULL) == 0);
        pid_t tid;
        check(read(first[0], &tid, sizeof tid) == sizeof tid && write(tids[1], &tid, sizeof tid) == sizeof tid);
        sigprocmask(SIG_BLOCK, &usr, NULL);
        pid_t below = vfork(); /* the first thread waits, and nothing but SIGKILL ends that */
        if (below == 0) {
            pid_t me = getpid();
            (void)!write(tids[1], &me, sizeof me);
            for (;;)
                sleep(1000);
        }
        _exit(0);
    }
    pid_t other, below;
    check(read(tids[0], &other, sizeof other) == sizeof other && read(tids[0], &below, sizeof below) == sizeof below);
    until(says(pid, pid, "State:\tD"));
    check(kill(pid, SIGSTOP) == 0);
    until(says(pid, other, "State:\tT"));
    check(says(pid, pid, "ShdPnd:\t0000000000000000") && says(pid, pid, "SigPnd:\t0000000000000000"));
    check(says(pid, pid, "State:\tD"));
    kill(pid, SIGKILL);
    kill(below, SIGKILL);
    check(waitpid(pid, NULL, 0) == pid);
    return ok();
}
