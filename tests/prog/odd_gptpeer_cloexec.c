/* Of the other side of a terminal opened by TIOCGPTPEER with O_CLOEXEC, that is a flag of the open file (linux: ptm_open_peer), and not only of the
 * descriptor: fdinfo and F_GETFL show it of each that was duplicated from this one, though exec keeps that open. With open(2) it is not. */
#include "prog.h"
#include <sys/ioctl.h>

/* What fdinfo says of whether exec closes it. */
static int shows_close_on_exec(int fd)
{
    char path[64], line[256];
    unsigned flags = 0;
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    FILE *info = fopen(path, "r");
    check(info != NULL);
    while (fgets(line, sizeof line, info))
        sscanf(line, "flags: %o", &flags);
    check(fclose(info) == 0);
    return (flags & O_CLOEXEC) != 0;
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    check(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    int peer = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    int named = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    check(peer >= 0 && named >= 0);
    int of_peer = dup(peer), of_named = dup(named);
    check((fcntl(of_peer, F_GETFD) & FD_CLOEXEC) == 0 && (fcntl(of_named, F_GETFD) & FD_CLOEXEC) == 0);
    check((fcntl(of_peer, F_GETFL) & O_CLOEXEC) != 0 && shows_close_on_exec(of_peer));
    check((fcntl(of_named, F_GETFL) & O_CLOEXEC) == 0 && !shows_close_on_exec(of_named));
    return ok();
}
