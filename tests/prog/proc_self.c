/* /proc/self is the process that looks, under the number that getpid gives; its children are in /proc too. */
#include "prog.h"

int main(int argc, char **argv)
{
    char link[32] = "", path[64], comm[32] = "";
    begin(argc, argv);
    if (role("child")) {
        check(readlink("/proc/self", link, sizeof link - 1) > 0 && atoi(link) == getpid());
        check(stat_field(getpid(), 1) == getppid() && stat_field(getpid(), 2) == getpgrp());
        check(stat_field(getpid(), 3) == getsid(0));
        check(access("/proc/self/fd/1", F_OK) == 0);
        check(prctl(PR_SET_NAME, "renamed") == 0);
        say(1, 'r');
        return hear(0) == -1 ? 0 : 1;
    }
    struct piped child = spawn_piped("child");
    check(hear(child.out) == 'r' && stat_field(child.pid, 1) == getpid());
    check(stat_field(child.pid, 2) == getpgrp() && stat_field(child.pid, 3) == getsid(0));
    until(state_of(child.pid) == 'S');
    snprintf(path, sizeof path, "/proc/%d/comm", (int)child.pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    check(fd >= 0 && read(fd, comm, sizeof comm - 1) > 0 && comm[0]);
    close(child.in);
    until(state_of(child.pid) == 'Z');
    check(stat_field(child.pid, 1) == getpid() && stat_field(child.pid, 2) == getpgrp());
    check(exited(wait_status(child.pid), 0) && state_of(child.pid) == -1);
    return ok();
}
