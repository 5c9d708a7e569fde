/* Dropping to uid 65534 is for good: no way back, and /proc/self/status says so. */
#include "prog.h"
#include <grp.h>

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (geteuid() != 0)
        return ok();
    pid_t child = fork_child();
    if (child == 0) {
        char line[256];
        int seen = 0;
        gid_t groups[2] = {100, 65534};
        check(setgroups(2, groups) == 0 && setresgid(65534, 65534, 65534) == 0);
        check(setresuid(65534, 65534, 65534) == 0);
        check(setuid(0) == -1 && errno == EPERM && setgid(0) == -1 && errno == EPERM);
        check(getuid() == 65534 && geteuid() == 65534 && getgid() == 65534 && getegid() == 65534);
        FILE *status = fopen("/proc/self/status", "re");
        while (status && fgets(line, sizeof line, status)) {
            seen += strcmp(line, "Uid:\t65534\t65534\t65534\t65534\n") == 0;
            seen += strcmp(line, "Gid:\t65534\t65534\t65534\t65534\n") == 0;
            seen += strncmp(line, "Groups:\t100 65534", 17) == 0;
        }
        check(seen == 3 && open("/etc/shadow", O_RDONLY) == -1 && errno == EACCES);
        _exit(70);
    }
    check(exited(wait_status(child), 70));
    return ok();
}
