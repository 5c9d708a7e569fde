/* What is in a memory file is executed, as before: it counts as open for writing only where it was opened so again. */
#include "prog.h"
#include <sys/mman.h>

extern char **environ;

static int executes(int fd)
{
    int status;
    pid_t pid = fork();
    check(pid >= 0);
    if (pid == 0) {
        fexecve(fd, (char *[]){"true", NULL}, environ);
        _exit(errno);
    }
    check(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int make(const char *name)
{
    int fd = memfd_create(name, 0);
    check(fd >= 0 && write(fd, "#!/bin/true\n", 12) == 12);
    return fd;
}

int main(int argc, char **argv)
{
    char path[64];
    begin_carried(argc, argv);
    int plain = make("plain"), mapped = make("mapped"), set = make("set"), again = make("again");
    char *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, mapped, 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", again);
    int writes = open(path, O_RDWR | O_APPEND), reads = open(path, O_RDONLY);
    check(memory != MAP_FAILED && writes >= 0 && reads >= 0 && lseek(again, 3, SEEK_SET) == 3 && lseek(writes, 5, SEEK_SET) == 5);
    check(fcntl(set, F_SETFL, O_APPEND | O_NONBLOCK) == 0 && lseek(set, 2, SEEK_SET) == 2);
    check(executes(plain) == 0 && executes(mapped) == 0 && executes(set) == 0 && executes(again) == ETXTBSY);

    phase();

    check(executes(plain) == 0 && executes(mapped) == 0 && executes(set) == 0 && executes(again) == ETXTBSY);
    check(lseek(again, 0, SEEK_CUR) == 3 && lseek(writes, 0, SEEK_CUR) == 5 && lseek(plain, 0, SEEK_CUR) == 12);
    check((fcntl(set, F_GETFL) & (O_ACCMODE | O_APPEND | O_NONBLOCK)) == (O_RDWR | O_APPEND | O_NONBLOCK) && lseek(set, 0, SEEK_CUR) == 2);
    check(close(writes) == 0 && executes(reads) == 0);
    memory[0] = ' ';
    check(pread(mapped, path, 1, 0) == 1 && path[0] == ' ');
    return ok();
}
