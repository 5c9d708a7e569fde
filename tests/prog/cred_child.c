/* A user's child elsewhere has its uid, gid and supplementary groups; the parent sees them in /proc. */
#include "prog.h"
#include <grp.h>

static uid_t uid_of(pid_t pid)
{
    char path[40];
    struct stat st;
    /* the directory, as ps does: the files inside belong to root where the process is not dumpable */
    snprintf(path, sizeof path, "/proc/%d", (int)pid);
    check(stat(path, &st) == 0);
    return st.st_uid;
}

int main(int argc, char **argv)
{
    gid_t groups[3] = {0, 0, 0};
    begin(argc, argv);
    if (role("child")) {
        check(getuid() == 65534 && geteuid() == 65534 && getgid() == 65533 && getegid() == 65533);
        check(getgroups(3, groups) == 2 && groups[0] == 1234567 && groups[1] == 2345678);
        check(setuid(0) == -1 && errno == EPERM && kill(1, 0) == -1 && errno == EPERM);
        char line[256];
        int none = 0;
        FILE *status = fopen("/proc/self/status", "re");
        while (status && fgets(line, sizeof line, status))
            none += strncmp(line, "Cap", 3) == 0 && strncmp(line, "CapBnd", 6) && strtoull(line + 7, NULL, 16) == 0;
        check(none == 4); /* inheritable, permitted, effective, ambient */
        say(1, 'r');
        return hear(0) == -1 ? 72 : 1;
    }
    if (geteuid() != 0)
        return ok();
    pid_t user = fork_child();
    if (user == 0) {
        groups[0] = 1234567;
        groups[1] = 2345678;
        check(setgroups(2, groups) == 0 && setresgid(65533, 65533, 65533) == 0);
        check(setresuid(65534, 65534, 65534) == 0);
        struct piped child = spawn_piped("child");
        check(hear(child.out) == 'r' && uid_of(child.pid) == 65534);
        close(child.in);
        check(exited(wait_status(child.pid), 72));
        _exit(72);
    }
    check(exited(wait_status(user), 72));
    return ok();
}
