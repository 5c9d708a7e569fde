/* With tostop a background job that writes to the terminal stops by SIGTTOU; without it the text comes through. */
#include "pty.h"

int main(int argc, char **argv)
{
    char name[64], got = 0;
    begin(argc, argv);
    if (role("job")) {
        say(1, 'x');
        return 64;
    }
    int master = open_pty(name);
    pid_t leader = fork_leader(name);
    if (leader == 0) {
        struct termios mode;
        int status;
        check(tcgetattr(0, &mode) == 0);
        pid_t child = job("job", 0, 0);
        check(exited(wait_status(child), 64));
        mode.c_lflag |= TOSTOP;
        check(tcsetattr(0, TCSANOW, &mode) == 0);
        child = job("job", 0, 0);
        check(waitpid(child, &status, WUNTRACED) == child && stopped(status, SIGTTOU));
        foreground(child);
        check(kill(-child, SIGCONT) == 0 && exited(wait_status(child), 64));
        foreground(getpgrp());
        _exit(64);
    }
    for (int n = 0; n < 2; n += got == 'x')
        check(read(master, &got, 1) == 1);
    check(exited(wait_status(leader), 64));
    return ok();
}
