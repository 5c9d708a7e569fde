// reaches PID: what of a process its caller may do, a word each: trace it, read its memory, take its files, schedule it.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

int main(int argc, char **argv) {
    pid_t pid = argc == 2 ? atoi(argv[1]) : 0;
    char path[64], bytes[8];
    struct iovec here = { bytes, 8 }, there = { (void *)0x400000, 8 };
    struct sched_param param = { 0 };
    cpu_set_t set;
    if (pid <= 0 || getpgid(pid) < 0) return 1;
    snprintf(path, sizeof path, "/proc/%d/mem", pid);
    if (open(path, O_RDONLY) >= 0) puts("mem");
    if (process_vm_readv(pid, &here, 1, &there, 1, 0) >= 0) puts("readv");
    if (syscall(SYS_pidfd_getfd, syscall(SYS_pidfd_open, pid, 0), 0, 0) >= 0) puts("getfd");
    if (sched_setscheduler(pid, SCHED_IDLE, &param) == 0) puts("idle");
    if (setpriority(PRIO_PROCESS, pid, 19) == 0) puts("nice");
    if (sched_getaffinity(pid, sizeof set, &set) == 0 && sched_setaffinity(pid, sizeof set, &set) == 0) puts("affinity");
    if (syscall(SYS_ioprio_set, 1, pid, 3 << 13) == 0) puts("ioprio");
    if (ptrace(PTRACE_SEIZE, pid, 0, 0) == 0) puts("traced");
    puts("done");
    return 0;
}
