/* A script with an interpreter line: the interpreter gets its one argument, the path, then the arguments. */
#include "prog.h"

int main(int argc, char **argv)
{
    char dir[] = "/tmp/exec_script.XXXXXX", path[64], self[PATH_MAX] = "", line[PATH_MAX + 64];
    begin(argc, argv);
    if (role("one word")) {
        check(argc == 5 && strcmp(arg(2), "x y") == 0 && strcmp(arg(3), "") == 0);
        return access(arg(1), R_OK) == 0 ? 23 : 1;
    }
    check(mkdtemp(dir) && readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    snprintf(path, sizeof path, "%s/script", dir);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0700);
    int len = snprintf(line, sizeof line, "#!%s one word\n", self);
    check(fd >= 0 && write(fd, line, (size_t)len) == len && close(fd) == 0);
    pid_t child = fork_child();
    if (child == 0) {
        execl(path, "ignored", "x y", "", NULL);
        check(!"exec");
    }
    int status = wait_status(child);
    check(unlink(path) == 0 && rmdir(dir) == 0);
    check(exited(status, 23));
    return ok();
}
