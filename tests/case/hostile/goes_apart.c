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
#include <sys/prctl.h>
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
