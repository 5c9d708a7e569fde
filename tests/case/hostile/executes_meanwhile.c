// executes_meanwhile DIRECTORY NODE SETUID-PROGRAM FILE: connects to the daemon, executes a set-user-ID program, and lets a child that has the
// connection too ask under this process's number for `touch FILE` on NODE. Whose is the file?
#include "question.h"

static int root_in_effect(pid_t pid) {
    char line[200], path[50];
    int real, effective = -1;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *status = fopen(path, "r");
    must(status != NULL, path);
    while (fgets(line, sizeof line, status) != NULL)
        if (sscanf(line, "Uid: %d %d", &real, &effective) == 2) break;
    fclose(status);
    return effective == 0;
}

int main(int argc, char **argv) {
    static unsigned char ask[1 << 20], answer[4096];
    must(argc == 5, "arguments");
    char *run[] = { "shoal", "run", "-n", argv[2], "touch", argv[4], NULL };
    size_t length = question(argv[1], run, ask, sizeof ask);
    int daemon = at("/run/shoal/shoal.sock", 0);
    pid_t me = getpid();
    if (fork() == 0) {
        while (!root_in_effect(me)) usleep(1000);
        must(write(daemon, ask, length) == (ssize_t)length, "ask");
        must(read(daemon, answer, sizeof answer) > 0, "the answer");
        while (access(argv[4], F_OK) != 0) usleep(1000);
        return 0;
    }
    execl(argv[3], argv[3], "3", NULL);
    return 1;
}
