/* A change of the window's size sends SIGWINCH to the foreground group. */
#include "pty.h"

int main(int argc, char **argv)
{
    char name[64];
    begin(argc, argv);
    if (role("job")) {
        block(SIGWINCH);
        say(1, 'r');
        take(SIGWINCH);
        return 66;
    }
    int master = open_pty(name), out[2];
    struct winsize size = {.ws_row = 33, .ws_col = 77};
    check(pipe2(out, O_CLOEXEC) == 0);
    pid_t leader = fork_leader(name);
    if (leader == 0) {
        pid_t child = job("job", 0, out[1]);
        foreground(child);
        say(out[1], 'l');
        check(exited(wait_status(child), 66));
        size.ws_row = 0;
        check(ioctl(0, TIOCGWINSZ, &size) == 0 && size.ws_row == 33 && size.ws_col == 77);
        _exit(66);
    }
    int heard = hear(out[0]) + hear(out[0]);
    check(heard == 'r' + 'l' && ioctl(master, TIOCSWINSZ, &size) == 0);
    check(exited(wait_status(leader), 66));
    return ok();
}
