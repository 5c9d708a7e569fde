/* A write to ns_last_pid is lost now and then to a fork on another processor (linux: pid_ns_ctl_handler sets the cursor without the lock
 * under which alloc_pid moves it on): numbers go on where they were. */
#include "prog.h"
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>

enum { LOW = 10000, HIGH = 20000, NEAR = 2000, WRITES = 300000, LOOKS = 20 };

static void *fork_on(void *unused)
{
    for (;;) {
        pid_t pid = vfork();
        if (pid == 0)
            _exit(0);
        waitpid(pid, NULL, 0);
    }
    return unused;
}

static int last_pid(int file)
{
    char text[16] = "";
    check(pread(file, text, sizeof text - 1, 0) > 0);
    return atoi(text);
}

/* A fork that is under way may end after the first looks. */
static int goes_on_elsewhere(int file, int from)
{
    int now = 0;
    check(dprintf(file, "%d", from) > 0);
    for (int i = 0; i < LOOKS; i++)
        now = last_pid(file);
    return now < from || now > from + NEAR;
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (sysconf(_SC_NPROCESSORS_ONLN) == 1)
        return ok(); /* nothing runs beside the write */
    check(unshare(CLONE_NEWPID | CLONE_NEWNS) == 0);
    pid_t init = fork_child();
    if (init == 0) {
        pthread_t thread;
        check(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 && mount("proc", "/proc", "proc", 0, NULL) == 0);
        int file = open("/proc/sys/kernel/ns_last_pid", O_RDWR), lost = 0;
        check(file >= 0 && pthread_create(&thread, NULL, fork_on, NULL) == 0);
        for (int i = 0; i < WRITES && !lost; i++)
            lost = goes_on_elsewhere(file, i % 2 ? LOW : HIGH);
        _exit(lost ? 7 : 1);
    }
    check(exited(wait_status(init), 7));
    return ok();
}
