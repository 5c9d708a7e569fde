/* The umask and the working directory go to a child elsewhere. */
#include "prog.h"

int main(int argc, char **argv)
{
    char cwd[PATH_MAX];
    begin(argc, argv);
    if (role("child")) {
        check(umask(0) == 0127 && getcwd(cwd, sizeof cwd) && strcmp(cwd, "/usr/bin") == 0);
        return 0;
    }
    umask(0127);
    check(chdir("/usr/bin") == 0);
    check(exited(wait_status(spawn_child("child")), 0));
    return ok();
}
