// executes_as_stand_in DIRECTORY NODE: asks for programs in place of `shoal run`, opens the file that its stand-in would hold, and executes
// another program, which closes it; or opens nothing, so that what the program forks is not seen.
#include "question.h"
#include <fcntl.h>

int main(int argc, char **argv) {
    static unsigned char ask[1 << 20], answer[4096];
    must(argc == 3, "arguments");
    char *run[] = { "shoal", "run", "-n", argv[2], "sh", "-c", "sleep 100 & sleep 100", NULL };
    size_t length = question(argv[1], run, ask, sizeof ask);
    for (int i = 0; i < 20; i++) {
        if (fork() > 0) continue;
        int daemon = at("/run/shoal/shoal.sock", 0);
        must(write(daemon, ask, length) == (ssize_t)length && read(daemon, answer, sizeof answer) > 0, "ask");
        must(i % 2 || open("/run/shoal/ghosts/hold", O_RDWR | O_CLOEXEC) >= 0, "hold");
        must(write(daemon, ask, length) == (ssize_t)length, "ask again");
        execlp("sleep", "sleep", "1", NULL);
    }
    while (wait(NULL) > 0) {}
    return 0;
}
