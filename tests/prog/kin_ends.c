/* A parent that is carried about while its children end, one after the other, is told of each; of few a second time. */
#include "prog.h"
#include <poll.h>

enum { CHILDREN = 60, PACE_US = 3000, MOVES = 5 };

static volatile sig_atomic_t told;
static void on_child(int sig)
{
    (void)sig;
    told++;
}

/* Leads nowhere, and does nothing until it is killed. */
static pid_t child_of_mine(void)
{
    pid_t pid = fork_child();
    if (pid)
        return pid;
    /* Once it says so, nothing of it leads to anybody else. */
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++)
        check(dup2(null, fd) == fd);
    close(null);
    alarm(120);
    check(kill(getppid(), SIGRTMIN) == 0);
    for (;;)
        pause();
}

int main(int argc, char **argv)
{
    begin_carried(argc, argv);
    alarm(120);
    struct sigaction act = {.sa_handler = on_child, .sa_flags = SA_RESTART};
    check(sigaction(SIGCHLD, &act, NULL) == 0);
    pid_t child[CHILDREN];
    block(SIGRTMIN);
    for (int i = 0; i < CHILDREN; i++) {
        child[i] = child_of_mine();
        take(SIGRTMIN);
    }
    struct pollfd answer = {.fd = 0, .events = POLLIN};
    int carried = getenv("PHASES") != NULL, ended = 0;
    check(!carried || write(1, "phase\n", 6) == 6);
    while (ended < CHILDREN) {
        check(kill(child[ended], SIGKILL) == 0);
        until(told > ended);
        ended++;
        usleep(PACE_US);
    }
    while (carried && poll(&answer, 1, -1) < 0)
        check(errno == EINTR);
    check(told >= CHILDREN && told <= CHILDREN + MOVES);
    for (int i = 0; i < CHILDREN; i++)
        check(killed(wait_status(child[i]), SIGKILL));
    check(wait(NULL) == -1 && errno == ECHILD);
    return ok();
}
