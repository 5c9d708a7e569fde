/* A user may not signal another's process: EPERM, and nothing arrives; root may. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        say(1, 'r');
        pause_forever();
    }
    if (geteuid() != 0)
        return ok();
    struct piped child = spawn_piped("child");
    check(hear(child.out) == 'r');
    pid_t user = fork_child();
    if (user == 0) {
        union sigval value = {.sival_int = 1};
        check(setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0);
        check(kill(child.pid, SIGTERM) == -1 && errno == EPERM);
        check(kill(child.pid, 0) == -1 && errno == EPERM);
        check(kill(child.pid, SIGKILL) == -1 && errno == EPERM);
        check(sigqueue(child.pid, SIGTERM, value) == -1 && errno == EPERM);
        check(syscall(SYS_tgkill, child.pid, child.pid, SIGTERM) == -1 && errno == EPERM);
        int fd = (int)syscall(SYS_pidfd_open, child.pid, 0);
        check(fd >= 0 && syscall(SYS_pidfd_send_signal, fd, SIGTERM, NULL, 0) == -1 && errno == EPERM);
        check(kill(child.pid, SIGCONT) == 0); /* same session: SIGCONT is allowed to all */
        _exit(39);
    }
    check(exited(wait_status(user), 39));
    check(waitpid(child.pid, NULL, WNOHANG) == 0);
    check(kill(child.pid, SIGTERM) == 0 && killed(wait_status(child.pid), SIGTERM));
    return ok();
}
