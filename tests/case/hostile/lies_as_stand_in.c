// lies_as_stand_in DIRECTORY NODE SECONDS SEED: for so long, asks for programs in place of `shoal run` and then does something else than that would,
// one thing after the other and several at once: says nothing more, dies at each step, hands over garbage, stops, executes, leaves a thread.
#include "hold.h"
#include <errno.h>
#include <pthread.h>
#include <time.h>

#define WAYS 14
#define AT_ONCE 6

static unsigned char ask[1 << 20];
static size_t length;

static void garble(void *at, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) ((unsigned char *)at)[i] = rand() % 3 ? 0 : rand();
}

// Obeys nobody: says that it has done what it was told, with this result or any.
static void hold(int fd, int rounds, int random) {
    struct hold hold = { .slots = 8 };
    for (int i = 0; i < rounds; i++) {
        if (ioctl(fd, HOLD, &hold) < 0 && errno != EINTR) return;
        hold.done = hold.tag;
        hold.ret = random ? rand() % 100000 - 50 : 0;
        if (random > 1) garble(&hold, sizeof hold);
    }
}

static void *holds_on(void *fd) {
    hold(*(int *)fd, 50, 0);
    return NULL;
}

static void one(int way) {
    static unsigned char answer[4096];
    int daemon = at("/run/shoal/shoal.sock", 0);
    if (way == 0) garble(ask + rand() % length, 16);
    if (way == 1) length = 1 + rand() % length;
    if (write(daemon, ask, length) != (ssize_t)length || way == 2) raise(SIGKILL);
    if (way > 1 && read(daemon, answer, sizeof answer) <= 0) return;
    if (way == 3) raise(SIGKILL);
    if (way == 4) return;
    int fd = way > 1 ? hold_file() : -1;
    if (fd < 0) { pause(); return; }
    pthread_t thread;
    switch (way) {
    case 5: raise(SIGKILL); break;
    case 6: return;
    case 7: hold(fd, 200, 1); break;
    case 8: hold(fd, 200, 2); break;
    case 9: if (fork() == 0) { hold(fd, 10, 1); pause(); } close(fd); break;
    case 10: raise(SIGSTOP); break;
    case 11: fcntl(fd, F_SETFD, 0); execlp("sleep", "sleep", "1", NULL); break;
    case 12: pthread_create(&thread, NULL, holds_on, &fd); pthread_exit(NULL);
    case 13: hold(fd, 2, 0); pause(); break;
    }
}

int main(int argc, char **argv) {
    must(argc == 5, "arguments");
    char *run[] = { "shoal", "run", "-n", argv[2], "sh", "-c", "sleep 100 & setsid sleep 100 & kill -STOP $!; sleep 100", NULL };
    length = question(argv[1], run, ask, sizeof ask);
    time_t end = time(NULL) + atoi(argv[3]);
    unsigned seed = atoi(argv[4]);
    pid_t going[AT_ONCE] = { 0 };
    for (int i = 0; time(NULL) < end; i++) {
        pid_t *place = &going[i % AT_ONCE];
        // Whoever is still there by now.
        if (*place > 0) { kill(*place, rand() % 4 ? SIGKILL : SIGTERM); waitpid(*place, NULL, WNOHANG); }
        *place = fork();
        if (*place == 0) { srand(seed + i); setpgid(0, 0); one((seed + i) % WAYS); _exit(0); }
        struct timespec pause = { 0, 1000000 * (5 + rand() % 40) };
        nanosleep(&pause, NULL);
        while (waitpid(-1, NULL, WNOHANG) > 0) {}
    }
    return 0;
}
