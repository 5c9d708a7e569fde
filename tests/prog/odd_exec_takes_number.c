/* A thread that executes a program gets the number of its process's first thread. That one is dead by then, also in a stop for its tracer, who is told
 * nothing; the next request on the number fails (linux: de_thread). What acts on a memory by the number acts on that of the new program. A file of the
 * memory that was opened before stays that of the old one, which nobody has any more: it gives and takes 0 bytes (linux: mem_rw). */
#include "prog.h"
#include <sys/ptrace.h>
#include <sys/uio.h>

static char *const page = (char *)0x2000000000;

static void map_page(void)
{
    check(mmap(page, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == page);
}

static void *executes(void *go)
{
    char byte;
    check(read(*(int *)go, &byte, 1) == 1);
    execl("/proc/self/exe", "odd_exec_takes_number", "probe", NULL);
    check(!"executed");
    return NULL;
}

static void told(char what)
{
    check(write(1, &what, 1) == 1);
}

/* The new program says when it is there and, asked, what is in its page. */
static int probe(void)
{
    char byte;
    map_page();
    told('p');
    check(read(0, &byte, 1) == 1);
    return page[0];
}

int main(int argc, char **argv)
{
    int to[2], from[2], go[2];
    char byte = 0;
    if (argc > 1 && strcmp(argv[1], "probe") == 0)
        return probe();
    begin(argc, argv);
    check(pipe(to) == 0 && pipe(from) == 0 && pipe(go) == 0);
    pid_t child = fork_child();
    if (child == 0) {
        pthread_t thread;
        check(dup2(to[0], 0) == 0 && dup2(from[1], 1) == 1);
        map_page();
        check(pthread_create(&thread, NULL, executes, &go[0]) == 0);
        told('c');
        for (;;)
            pause();
    }
    check(read(from[0], &byte, 1) == 1 && byte == 'c');
    check(ptrace(PTRACE_SEIZE, child, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC) == 0);
    int status;
    check(ptrace(PTRACE_INTERRUPT, child, 0, 0) == 0 && waitpid(child, &status, __WALL) == child && WIFSTOPPED(status));
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", (int)child);
    int memory = open(path, O_RDWR | O_CLOEXEC);
    siginfo_t info;
    check(memory >= 0 && ptrace(PTRACE_GETSIGINFO, child, 0, &info) == 0 && info.si_code == status >> 8);
    check(pread(memory, &byte, 1, (off_t)page) == 1 && byte == 0);

    check(write(go[1], "", 1) == 1);
    check(read(from[0], &byte, 1) == 1 && byte == 'p');
    check(waitpid(child, &status, __WALL | WNOHANG) == 0);
    check(ptrace(PTRACE_GETSIGINFO, child, 0, &info) == -1 && errno == ESRCH);
    byte = 3;
    check(pread(memory, &byte, 1, (off_t)page) == 0 && pwrite(memory, &byte, 1, (off_t)page) == 0);
    struct iovec here = {&byte, 1}, there = {page, 1};
    byte = 7;
    check(process_vm_writev(child, &here, 1, &there, 1, 0) == 1);
    check(write(to[1], "", 1) == 1);
    check(exited(wait_status(child), 7));
    return ok();
}
