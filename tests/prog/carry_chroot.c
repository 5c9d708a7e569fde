/* A root directory of its own, and what is open outside of it. */
#include "prog.h"

int main(int argc, char **argv)
{
    char jail[] = "/tmp/carry_chroot.XXXXXX", cwd[PATH_MAX];
    struct stat before, after;
    begin_carried(argc, argv);
    if (geteuid() != 0)
        return ok();
    check(mkdtemp(jail) && chdir(jail) == 0 && mkdir("inner", 0700) == 0);
    int outside = open("/tmp", O_RDONLY | O_DIRECTORY);
    check(outside >= 0 && chroot(".") == 0 && chdir("/inner") == 0);
    int fd = open("/inner/file", O_CREAT | O_RDWR, 0600);
    check(fd >= 0 && write(fd, "jailed", 6) == 6 && stat("/", &before) == 0);

    phase();

    check(stat("/", &after) == 0 && after.st_ino == before.st_ino && after.st_dev == before.st_dev);
    check(getcwd(cwd, sizeof cwd) && strcmp(cwd, "/inner") == 0 && access("/tmp", F_OK) == -1);
    check(lseek(fd, 0, SEEK_CUR) == 6 && access("file", F_OK) == 0 && unlink("/inner/file") == 0);
    check(chdir("/../..") == 0 && stat(".", &after) == 0 && after.st_ino == before.st_ino); /* no way out by names */
    check(rmdir("/inner") == 0 && unlinkat(outside, jail + strlen("/tmp/"), AT_REMOVEDIR) == 0);
    return ok();
}
