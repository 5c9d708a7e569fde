/* A handled signal interrupts a read with EINTR, and with SA_RESTART the read goes on. */
#include "prog.h"

static void handler(int sig) { say(1, sig == SIGUSR1 ? '1' : '2'); }

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        struct sigaction act = {.sa_handler = handler}, restart = {.sa_handler = handler, .sa_flags = SA_RESTART};
        char c;
        check(sigaction(SIGUSR1, &act, NULL) == 0 && sigaction(SIGUSR2, &restart, NULL) == 0);
        say(1, 'r');
        while (read(0, &c, 1) == -1) {
            check(errno == EINTR);
            say(1, 'e');
        }
        return c == 'g' ? 0 : 1;
    }
    struct piped child = spawn_piped("child");
    check(hear(child.out) == 'r');
    until(state_of(child.pid) == 'S');
    check(kill(child.pid, SIGUSR2) == 0 && hear(child.out) == '2');
    say(child.in, 'g');
    check(exited(wait_status(child.pid), 0));

    child = spawn_piped("child");
    check(hear(child.out) == 'r');
    do /* the first may come before the read has begun: then no read was interrupted */
        check(kill(child.pid, SIGUSR1) == 0 && hear(child.out) == '1');
    while (poll(&(struct pollfd){.fd = child.out, .events = POLLIN}, 1, 50) == 0);
    check(hear(child.out) == 'e');
    say(child.in, 'g');
    check(exited(wait_status(child.pid), 0));
    return ok();
}
