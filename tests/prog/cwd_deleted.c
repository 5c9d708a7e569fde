/* A working directory that is deleted is one elsewhere too: empty, without a name, and nothing can be made in it. */
#include "prog.h"
#include <dirent.h>

int main(int argc, char **argv)
{
    char cwd[PATH_MAX];
    begin(argc, argv);
    if (role("child")) {
        DIR *here = opendir(".");
        struct dirent *entry;
        check(!getcwd(cwd, sizeof cwd) && errno == ENOENT);
        check(here);
        while ((entry = readdir(here)))
            check(strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0);
        check(open("file", O_CREAT | O_WRONLY, 0600) < 0 && errno == ENOENT);
        check(umask(0) == 0777);
        return 0;
    }
    snprintf(cwd, sizeof cwd, "/tmp/cwd_deleted.%d", getpid());
    check(mkdir(cwd, 0700) == 0 && chdir(cwd) == 0 && rmdir(cwd) == 0);
    umask(0777);
    check(exited(wait_status(spawn_child("child")), 0));
    return ok();
}
