// asks_as_another DIRECTORY NODE: connects to the daemon and ends; its child, which has the connection, waits for DIRECTORY/go, asks for
// `touch DIRECTORY/made` on NODE, and prints what it can read of the answer.
#include "question.h"
#include <ctype.h>

int main(int argc, char **argv) {
    static unsigned char ask[1 << 20], answer[4096];
    char made[200], go[200];
    must(argc == 3, "arguments");
    snprintf(made, sizeof made, "%s/made", argv[1]);
    snprintf(go, sizeof go, "%s/go", argv[1]);
    char *run[] = { "shoal", "run", "-n", argv[2], "touch", made, NULL };
    size_t length = question(argv[1], run, ask, sizeof ask);
    int daemon = at("/run/shoal/shoal.sock", 0);
    pid_t was = getpid();
    if (fork() > 0) return 0;
    while (getppid() == was) usleep(1000);
    while (access(go, F_OK) != 0) usleep(1000);
    must(write(daemon, ask, length) == (ssize_t)length, "ask");
    ssize_t got = read(daemon, answer, sizeof answer);
    for (ssize_t i = 0; i < got; i++)
        if (isprint(answer[i])) putchar(answer[i]);
    putchar('\n');
    return 0;
}
