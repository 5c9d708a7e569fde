/* fexecve runs the file behind a descriptor, also one without a name (memfd). */
#include "prog.h"
#include <sys/mman.h>
#include <sys/sendfile.h>

extern char **environ;

static int run(int fd)
{
    pid_t child = fork_child();
    if (child == 0) {
        char *args[] = {"exec_fexecve", "child", NULL};
        fexecve(fd, args, environ);
        check(!"fexecve");
    }
    return wait_status(child);
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child"))
        return 31;
    struct stat st;
    int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    check(self >= 0 && fstat(self, &st) == 0);
    check(exited(run(self), 31));
    int mem = memfd_create("program", MFD_CLOEXEC);
    check(mem >= 0);
    while (st.st_size > 0) {
        ssize_t n = sendfile(mem, self, NULL, (size_t)st.st_size);
        check(n > 0);
        st.st_size -= n;
    }
    check(exited(run(mem), 31));
    return ok();
}
