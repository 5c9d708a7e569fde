// asks_for_more DIRECTORY NODE FILE: lowers its own limit of descriptors and its priority, and asks for a program with what it had before. The
// program writes what it has got into FILE. Whoever asks is that program to the daemon, and may end as it does.
#include "question.h"
#include <signal.h>
#include <sys/resource.h>

int main(int argc, char **argv) {
    static unsigned char ask[1 << 20], answer[4096];
    char script[200];
    must(argc == 4, "arguments");
    snprintf(script, sizeof script, "echo $(ulimit -Hn) $(nice) > %s/new; mv %s/new %s", argv[1], argv[1], argv[3]);
    char *run[] = { "shoal", "run", "-n", argv[2], "sh", "-c", script, NULL };
    size_t length = question(argv[1], run, ask, sizeof ask);
    pid_t asks = fork();
    if (asks == 0) {
        struct rlimit few = { 100, 100 };
        must(setrlimit(RLIMIT_NOFILE, &few) == 0 && setpriority(PRIO_PROCESS, 0, 7) == 0, "have less");
        int daemon = at("/run/shoal/shoal.sock", 0);
        must(write(daemon, ask, length) == (ssize_t)length && read(daemon, answer, sizeof answer) > 0, "ask");
        pause();
    }
    while (access(argv[3], F_OK) != 0) usleep(1000);
    kill(asks, SIGKILL);
    waitpid(asks, NULL, 0);
    return 0;
}
