/* sigqueue: the value, an int or a pointer, arrives with code SI_QUEUE and the sender. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        block(SIGUSR1);
        block(SIGRTMIN);
        say(1, 'r');
        siginfo_t info = take(SIGUSR1);
        check(info.si_code == SI_QUEUE && info.si_value.sival_int == -123456);
        check(info.si_pid == getppid() && info.si_uid == getuid());
        info = take(SIGRTMIN);
        check(info.si_code == SI_QUEUE && info.si_value.sival_ptr == (void *)0x123456789abcdef0);
        union sigval back = {.sival_ptr = (void *)0x0fedcba987654321};
        check(sigqueue(getppid(), SIGRTMIN + 1, back) == 0);
        return hear(0) == -1 ? 0 : 1;
    }
    union sigval number = {.sival_int = -123456}, pointer = {.sival_ptr = (void *)0x123456789abcdef0};
    block(SIGRTMIN + 1);
    struct piped child = spawn_piped("child");
    check(hear(child.out) == 'r');
    check(sigqueue(child.pid, SIGUSR1, number) == 0 && sigqueue(child.pid, SIGRTMIN, pointer) == 0);
    siginfo_t info = take(SIGRTMIN + 1);
    check(info.si_code == SI_QUEUE && info.si_value.sival_ptr == (void *)0x0fedcba987654321);
    check(info.si_pid == child.pid && info.si_uid == getuid());
    close(child.in);
    check(exited(wait_status(child.pid), 0));
    return ok();
}
