/* SIGCHLD's siginfo for exit, kill, stop and continue: code, PID, uid and status. */
#include "prog.h"

static void expect(pid_t child, int code, int status)
{
    siginfo_t info = take(SIGCHLD);
    check(info.si_pid == child && info.si_uid == getuid());
    check(info.si_code == code && info.si_status == status);
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("exit"))
        return 22;
    if (role("stay")) {
        say(1, 'r');
        pause_forever();
    }
    block(SIGCHLD);
    pid_t child = spawn_child("exit");
    expect(child, CLD_EXITED, 22);
    check(exited(wait_status(child), 22));

    struct piped stay = spawn_piped("stay");
    check(hear(stay.out) == 'r' && kill(stay.pid, SIGSTOP) == 0);
    expect(stay.pid, CLD_STOPPED, SIGSTOP);
    check(kill(stay.pid, SIGCONT) == 0);
    expect(stay.pid, CLD_CONTINUED, SIGCONT);
    check(kill(stay.pid, SIGTERM) == 0);
    expect(stay.pid, CLD_KILLED, SIGTERM);
    check(killed(wait_status(stay.pid), SIGTERM));
    return ok();
}
