// goes_apart WHAT GO DONE: when there is a file GO, does what would not go with it to another machine, says so in DONE, and stays. WHAT that begins with
// "thread " a thread of it does that is not the first.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static char *what, **files;

static void must(int yes, const char *doing)
{
    if (!yes) {
        perror(doing);
        exit(9);
    }
}

static void have_filter(void)
{
    struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {1, all};
    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "give up new rights");
    must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "have a filter");
}

/* Whoever asks this thread what it alone can tell ends its process. */
static void have_strict_filter(void)
{
    struct sock_filter all[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sigaltstack, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {5, all};
    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "give up new rights");
    must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "have a filter");
}

static void write_to(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY);
    must(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), path);
    close(fd);
}

/* Has a file without a name, of a directory of its own in the place of one that it may not write to: DONE.closed. */
static void have_file_of_another(void)
{
    char map[40], closed[4096], file[4200];
    snprintf(map, sizeof map, "0 %d 1", getuid());
    snprintf(closed, sizeof closed, "%s.closed", files[1]);
    snprintf(file, sizeof file, "%s/file", closed);
    must(unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0, what);
    write_to("/proc/self/setgroups", "deny");
    write_to("/proc/self/uid_map", map);
    write_to("/proc/self/gid_map", map);
    must(mount("none", closed, "tmpfs", 0, NULL) == 0, closed);
    must(open(file, O_CREAT | O_RDWR, 0600) >= 0 && unlink(file) == 0, file);
}

/* Is there as long as the process is in whose memory it runs. */
static int accompany(void *pid)
{
    while (!kill((pid_t)(long)pid, 0))
        usleep(10000);
    _exit(0);
}

static void *go(void *unused)
{
    while (access(files[0], F_OK))
        usleep(1000);
    if (!strcmp(what, "filter"))
        have_filter();
    else if (!strcmp(what, "strict filter"))
        have_strict_filter();
    else if (!strcmp(what, "file"))
        have_file_of_another();
    else if (!strcmp(what, "no new rights"))
        must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, what);
    else if (!strcmp(what, "user"))
        must(unshare(CLONE_NEWUSER) == 0, what);
    else if (!strcmp(what, "uts"))
        must(unshare(CLONE_NEWUTS) == 0, what);
    else if (!strcmp(what, "places"))
        must(unshare(CLONE_FS) == 0 && chdir("/usr") == 0, what);
    else if (!strcmp(what, "descriptors"))
        must(unshare(CLONE_FILES) == 0, what);
    else if (!strcmp(what, "memory")) {
        static char stack[65536];
        must(clone(accompany, stack + sizeof stack, CLONE_VM | CLONE_PARENT | SIGCHLD, (void *)(long)getpid()) > 0, what);
    } else
        must(0, what);
    must(creat(files[1], 0666) >= 0, files[1]);
    while (1)
        pause();
    return unused;
}

int main(int argc, char **argv)
{
    must(argc == 4, "have three arguments");
    what = argv[1];
    files = argv + 2;
    printf("%d\n", getpid());
    fflush(stdout);
    if (strncmp(what, "thread ", 7))
        go(NULL);
    what += 7;
    pthread_t thread;
    must(pthread_create(&thread, NULL, go, NULL) == 0, "make a thread");
    while (1)
        pause();
}
