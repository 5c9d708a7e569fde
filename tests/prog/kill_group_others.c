/* kill of a group succeeds if one of its members might be signalled, here or elsewhere, and says EPERM if none. */
#include "prog.h"

enum { USER = 65534 };

static pid_t member(pid_t group, uid_t user, int out, const char *role_name)
{
    pid_t pid = fork_child();
    if (pid == 0) {
        check(setpgid(0, group) == 0 && dup2(out, 1) == 1);
        check(setresgid(user, user, user) == 0 && setresuid(user, user, user) == 0);
        become(role_name);
    }
    return pid;
}

/* A user outside of the group signals it: 0, or the errno. */
static int user_kills(pid_t group, int sig)
{
    pid_t pid = fork_child();
    if (pid == 0) {
        check(setsid() == getpid());
        check(setresgid(USER, USER, USER) == 0 && setresuid(USER, USER, USER) == 0);
        _exit(kill(-group, sig) == 0 ? 0 : errno);
    }
    int status = wait_status(pid);
    check(WIFEXITED(status));
    return WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
    int out[2];
    begin(argc, argv);
    if (role("child")) {
        say(1, 'r');
        pause_forever();
    }
    if (role("parent")) {
        pid_t child = fork_child();
        if (child == 0) {
            check(setresgid(USER, USER, USER) == 0 && setresuid(USER, USER, USER) == 0);
            say(1, 'r');
            pause_forever();
        }
        check(killed(wait_status(child), SIGTERM));
        return 37;
    }
    if (geteuid() != 0)
        return ok();
    check(pipe2(out, O_CLOEXEC) == 0);
    pid_t here = fork_child();
    if (here == 0) {
        check(setpgid(0, 0) == 0);
        say(out[1], 'r');
        pause_forever();
    }
    check(hear(out[0]) == 'r');
    check(user_kills(here, 0) == EPERM && user_kills(here, SIGTERM) == EPERM);
    pid_t theirs = member(here, USER, out[1], "child");
    check(hear(out[0]) == 'r');
    check(user_kills(here, 0) == 0);
    check(user_kills(here, SIGTERM) == 0 && killed(wait_status(theirs), SIGTERM));
    check(user_kills(here, SIGTERM) == EPERM && waitpid(here, NULL, WNOHANG) == 0);
    pid_t roots = member(here, 0, out[1], "child");
    check(hear(out[0]) == 'r' && user_kills(here, SIGTERM) == EPERM);
    pid_t parent = member(here, 0, out[1], "parent");
    check(hear(out[0]) == 'r' && user_kills(here, SIGTERM) == 0 && exited(wait_status(parent), 37));
    check(kill(-here, SIGTERM) == 0 && killed(wait_status(here), SIGTERM) && killed(wait_status(roots), SIGTERM));
    check(user_kills(here, SIGTERM) == ESRCH);
    return ok();
}
