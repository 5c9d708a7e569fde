/* A FUSE server with a file of its own mount open cannot end: the kernel flushes the file (close_files) and waits for
 * the answer before it lets go of the server's device, so that not even SIGKILL ends it until the connection is aborted. */
#include "fuse.h"

/* Answers what comes until the file has been opened. */
static void serve_open(int device)
{
    struct fuse_open_out opened = {.fh = 1};
    answer(device, serve_until(device, FUSE_OPEN), &opened, sizeof opened);
}

static void *open_own(void *path)
{
    check(open(path, O_RDONLY | O_CLOEXEC) >= 0);
    return NULL;
}

static void serve(const char *at, int ready)
{
    pthread_t opener;
    int device = mount_on(at);
    check(pthread_create(&opener, NULL, open_own, (void *)at) == 0);
    serve_open(device);
    check(pthread_join(opener, NULL) == 0);
    say(ready, 'r');
    pause_forever();
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    int ready[2];
    char at[] = "/tmp/odd_flush_self.XXXXXX";
    /* The mount is in a namespace of our own and needs no unmounting. */
    check(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    int file = mkstemp(at);
    check(file >= 0 && pipe(ready) == 0);
    pid_t server = fork_child();
    if (server == 0)
        serve(at, ready[1]);
    close(ready[1]);
    int heard = hear(ready[0]);
    /* statx does not ask the server: what the open has brought is enough. */
    struct statx st = {0};
    int told = statx(AT_FDCWD, at, AT_STATX_DONT_SYNC, 0, &st);
    check(kill(server, SIGKILL) == 0);
    struct timespec bit = {.tv_nsec = 300 * 1000 * 1000};
    nanosleep(&bit, NULL);
    int status;
    pid_t early = waitpid(server, &status, WNOHANG);
    abort_connection(st.stx_dev_minor);
    check(heard == 'r' && told == 0);
    check(early == 0);
    check(killed(wait_status(server), SIGKILL));
    umount2(at, MNT_DETACH);
    unlink(at);
    return ok();
}
