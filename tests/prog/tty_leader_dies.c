/* When the session leader ends, the foreground group gets SIGHUP. */
#include "pty.h"

int main(int argc, char **argv)
{
    char name[64];
    begin(argc, argv);
    if (role("job")) {
        block(SIGHUP);
        say(1, 'r');
        take(SIGHUP);
        say(1, 'h');
        return 0;
    }
    int master = open_pty(name), out[2];
    check(pipe2(out, O_CLOEXEC) == 0);
    pid_t leader = fork_leader(name);
    if (leader == 0) {
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
        foreground(job("job", null, out[1]));
        say(out[1], 'f');
        pause_forever();
    }
    close(out[1]);
    check(hear(out[0]) + hear(out[0]) == 'r' + 'f' && kill(leader, SIGKILL) == 0); /* in either order */
    check(killed(wait_status(leader), SIGKILL));
    check(hear(out[0]) == 'h' && hear(out[0]) == -1);
    close(master);
    return ok();
}
