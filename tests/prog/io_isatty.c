/* On a terminal of its own a program sees a terminal, with its size and name; on a pipe it does not. */
#include "pty.h"

int main(int argc, char **argv)
{
    char name[64];
    begin(argc, argv);
    if (role("child"))
        return isatty(0) || isatty(1) ? 1 : 0;
    struct piped child = spawn_piped("child");
    check(exited(wait_status(child.pid), 0));
    struct winsize size = {.ws_row = 24, .ws_col = 80}, got;
    int master = open_pty(name);
    check(ioctl(master, TIOCSWINSZ, &size) == 0);
    pid_t leader = fork_leader(name);
    if (leader == 0) {
        check(isatty(0) && strcmp(ttyname(0), name) == 0);
        check(ioctl(0, TIOCGWINSZ, &got) == 0 && got.ws_row == 24 && got.ws_col == 80);
        int tty = open("/dev/tty", O_RDWR | O_CLOEXEC);
        check(tty >= 0 && tcgetsid(tty) == getpid());
        _exit(86);
    }
    check(exited(wait_status(leader), 86) && close(master) == 0);
    return ok();
}
