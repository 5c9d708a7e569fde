/* A child that dumps core is seen to have dumped, in the status and in siginfo. */
#include "prog.h"

int main(int argc, char **argv)
{
    char dir[] = "/tmp/wait_core.XXXXXX", cmd[64];
    struct rlimit lim;
    siginfo_t info;
    int fd = open("/proc/sys/kernel/core_pattern", O_RDONLY | O_CLOEXEC);
    begin(argc, argv);
    if (role("child")) {
        raise(SIGSEGV);
        return 1;
    }
    char pattern = (char)hear(fd);
    check(getrlimit(RLIMIT_CORE, &lim) == 0);
    if (lim.rlim_max == 0 || pattern == '|' || pattern == '/') /* no core can come into our directory here */
        return ok();
    lim.rlim_cur = lim.rlim_max;
    check(setrlimit(RLIMIT_CORE, &lim) == 0 && mkdtemp(dir) && chdir(dir) == 0);
    pid_t child = spawn_child("child");
    check(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) == 0);
    int status = wait_status(child);
    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    check(chdir("/") == 0 && system(cmd) == 0);
    check(info.si_code == CLD_DUMPED && info.si_status == SIGSEGV);
    check(killed(status, SIGSEGV) && WCOREDUMP(status));
    return ok();
}
