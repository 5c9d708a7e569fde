// holds_a_lease FILE DIRECTORY: whoever opens FILE, or executes it, waits until DIRECTORY/go is there. DIRECTORY/leased says that it is so.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char *in(const char *directory, const char *name) {
    char *path;
    if (asprintf(&path, "%s/%s", directory, name) < 0) exit(1);
    return path;
}

int main(int argc, char **argv) {
    int fd = argc == 3 ? open(argv[1], O_RDONLY) : -1;
    signal(SIGIO, SIG_IGN);
    if (fd < 0 || fcntl(fd, F_SETLEASE, F_WRLCK) != 0) {
        perror("holds_a_lease");
        return 1;
    }
    close(creat(in(argv[2], "leased"), 0644));
    while (access(in(argv[2], "go"), F_OK) != 0) usleep(2000);
    return 0;
}
