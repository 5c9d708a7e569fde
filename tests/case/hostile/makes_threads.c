// makes_threads PROCESSES SECONDS: each of so many processes makes one thread after the other. The exit code is how many of them were killed.
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void *nothing(void *argument) { return argument; }

int main(int argc, char **argv) {
    if (argc != 3) return 99;
    time_t end = time(NULL) + atoi(argv[2]);
    for (int i = atoi(argv[1]); i > 0; i--) {
        if (fork() != 0) continue;
        while (time(NULL) < end) {
            pthread_t thread;
            // EAGAIN: no number is free for the moment.
            if (pthread_create(&thread, NULL, nothing, NULL) == 0) pthread_join(thread, NULL);
            else usleep(1000);
        }
        _exit(0);
    }
    int status, killed = 0;
    while (wait(&status) > 0) killed += WIFSIGNALED(status);
    return killed;
}
