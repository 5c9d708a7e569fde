// never_comes DIRECTORY NODE COUNT: asks so often for a program that forks all the time, a new one every half second, and holds for none of them.
#include "question.h"

int main(int argc, char **argv) {
    static unsigned char ask[1 << 20], answer[4096];
    must(argc == 4, "arguments");
    char *run[] = { "shoal", "run", "-n", argv[2], "sh", "-c", "while sleep 0.04; do true; done", NULL };
    size_t length = question(argv[1], run, ask, sizeof ask);
    for (int i = atoi(argv[3]); i > 0; i--) {
        if (fork() == 0) {
            int daemon = at("/run/shoal/shoal.sock", 0);
            must(write(daemon, ask, length) == (ssize_t)length && read(daemon, answer, sizeof answer) > 0, "ask");
            sleep(5);
            _exit(0);
        }
        usleep(500000);
    }
    return 0;
}
