/* When the terminal goes away the session leader gets SIGHUP and reads end of file; when it ends, its job gets SIGHUP. */
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
        char c;
        close(master);
        block(SIGHUP);
        pid_t child = fork_child();
        if (child == 0) {
            sigset_t none = set_of(0);
            check(setpgid(0, 0) == 0 && sigprocmask(SIG_SETMASK, &none, NULL) == 0);
            check(dup2(null, 0) == 0 && dup2(out[1], 1) == 1);
            become("job");
        }
        setpgid(child, child);
        foreground(child);
        say(out[1], 'l');
        take(SIGHUP);
        check(read(0, &c, 1) == 0 && waitpid(child, NULL, WNOHANG) == 0);
        _exit(65);
    }
    int heard = hear(out[0]) + hear(out[0]);
    check(heard == 'r' + 'l' && close(master) == 0);
    check(exited(wait_status(leader), 65));
    check(close(out[1]) == 0 && hear(out[0]) == 'h' && hear(out[0]) == -1);
    return ok();
}
