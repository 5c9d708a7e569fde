/* signalfd: signals from elsewhere are read with sender, code and value. */
#include "prog.h"
#include <sys/signalfd.h>

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        struct signalfd_siginfo info;
        sigset_t set = set_of(SIGUSR1);
        check(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
        int fd = signalfd(-1, &set, SFD_CLOEXEC);
        say(1, 'r');
        check(read(fd, &info, sizeof info) == sizeof info);
        check(info.ssi_signo == SIGUSR1 && info.ssi_code == SI_QUEUE && info.ssi_int == 77);
        check(info.ssi_pid == (uint32_t)getppid() && info.ssi_uid == getuid());
        return 0;
    }
    union sigval value = {.sival_int = 77};
    struct piped child = spawn_piped("child");
    check(hear(child.out) == 'r' && sigqueue(child.pid, SIGUSR1, value) == 0);
    check(exited(wait_status(child.pid), 0));
    return ok();
}
