/* Moves itself from node to node by a call, with a thread that goes on, and looks whether anything of it is disturbed. Its arguments: the names of the nodes
 * 0, 1, … to go to. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <shoal.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define check(cond)                                                                                                    \
    do {                                                                                                               \
        if (!(cond)) {                                                                                                 \
            printf("line %d: %s: errno %d: %s\n", __LINE__, #cond, errno, shoal_error());                              \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

enum { WORDS = 4 << 20 };
static volatile sig_atomic_t signals;
static volatile unsigned long counted;
static volatile int over;

static void on_signal(int sig)
{
    (void)sig;
    signals++;
}

static void *counts(void *arg)
{
    while (!over)
        counted++;
    return arg;
}

static int open_files(void)
{
    int open = 0;
    for (int fd = 0; fd < 100; fd++)
        open += fcntl(fd, F_GETFD) >= 0;
    return open;
}

int main(int argc, char **argv)
{
    struct sigaction act = {.sa_handler = on_signal};
    for (int sig = 1; sig <= SIGRTMAX; sig++)
        if (sig != SIGKILL && sig != SIGSTOP && sig != SIGSEGV && sig != 32 && sig != 33)
            check(sigaction(sig, &act, NULL) == 0);
    sigset_t blocked, now;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR2);
    check(sigprocmask(SIG_SETMASK, &blocked, NULL) == 0);
    unsigned *memory = malloc(WORDS * sizeof *memory);
    for (unsigned i = 0; i < WORDS; i++)
        memory[i] = i * 2654435761u;
    pthread_t thread;
    check(pthread_create(&thread, NULL, counts, NULL) == 0);
    int files = open_files();
    pid_t own = getpid(), group = getpgrp(), session = getsid(0);
    for (int round = 1; round <= 2 * (argc - 1); round++) {
        int node = round % (argc - 1);
        struct utsname here;
        check(shoal_move(round % 2 ? 0 : own, node) == 0);
        check(uname(&here) == 0 && strcmp(here.nodename, argv[1 + node]) == 0);
        unsigned long before = counted;
        while (counted == before)
            ;
        for (unsigned i = 0; i < WORDS; i++)
            check(memory[i] == i * 2654435761u);
        check(shoal_move(0, 4711) == -1 && errno == EPERM && strstr(shoal_error(), "4711"));
        check(signals == 0 && open_files() == files);
        check(waitpid(-1, NULL, __WALL) == -1 && errno == ECHILD);
        check(sigprocmask(SIG_SETMASK, NULL, &now) == 0 && memcmp(&now, &blocked, 8) == 0);
        check(getpid() == own && getpgrp() == group && getsid(0) == session);
    }
    over = 1;
    check(pthread_join(thread, NULL) == 0);
    printf("ok\n");
    return 0;
}
