/* Who watches the files that it has open itself, its directory and its program's files is told of nothing that was done to carry it. */
#include "prog.h"
#include <sys/inotify.h>
#include <sys/ioctl.h>

static char directory[] = "/tmp/image_watching.XXXXXX";

static const char *in(const char *name)
{
    static char path[4][PATH_MAX];
    static int at;
    at = (at + 1) % 4;
    snprintf(path[at], sizeof path[at], "%s/%s", directory, name);
    return path[at];
}

static int make(const char *name)
{
    int fd = open(in(name), O_CREAT | O_RDWR, 0600);
    check(fd >= 0 && ftruncate(fd, 3 * 4096) == 0);
    return fd;
}

static int waiting(int fd)
{
    int bytes = -1;
    check(ioctl(fd, FIONREAD, &bytes) == 0);
    return bytes;
}

/* All that is there, which is what was said by one watch. */
static uint32_t said(int fd, int watch)
{
    char room[4096] __attribute__((aligned(8)));
    uint32_t all = 0;
    ssize_t n = read(fd, room, sizeof room);
    check(n > 0);
    for (ssize_t at = 0; at < n;) {
        struct inotify_event *event = (struct inotify_event *)(room + at);
        check(event->wd == watch || watch < 0);
        all |= event->mask;
        at += (ssize_t)(sizeof *event + event->len);
    }
    return all;
}

int main(int argc, char **argv)
{
    begin_carried(argc, argv);
    check(mkdtemp(directory) && mkdir(in("below"), 0700) == 0);
    int plain = make("plain"), mapped = make("mapped"), gone = make("gone"), once = make("once");
    int read_only = open(in("plain"), O_RDONLY), below = open(in("below"), O_RDONLY | O_DIRECTORY);
    char *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, mapped, 0);
    char *private = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, mapped, 4096);
    check(read_only >= 0 && below >= 0 && shared != MAP_FAILED && private != MAP_FAILED && chdir(directory) == 0);
    shared[0] = private[0] = 'x';
    check(close(mapped) == 0 && close(gone) == 0 && close(once) == 0);
    int notify = inotify_init1(IN_NONBLOCK), other = inotify_init1(IN_NONBLOCK);
    int of_directory = inotify_add_watch(notify, directory, IN_ALL_EVENTS), of_plain = inotify_add_watch(notify, "plain", IN_ALL_EVENTS);
    int of_mapped = inotify_add_watch(notify, "mapped", IN_ALL_EVENTS), of_below = inotify_add_watch(notify, "below", IN_ALL_EVENTS);
    int of_gone = inotify_add_watch(other, "gone", IN_OPEN | IN_DELETE_SELF), of_once = inotify_add_watch(other, "once", IN_OPEN | IN_ONESHOT);
    check(of_directory > 0 && of_plain > 0 && of_mapped > 0 && of_below > 0 && of_gone > 0 && of_once > 0);

    phase();

    if (waiting(notify) || waiting(other))
        dprintf(2, "of the directory or its files it was told %x\n", said(waiting(notify) ? notify : other, -1));
    check(waiting(notify) == 0 && waiting(other) == 0);
    check(pwrite(plain, "y", 1, 0) == 1 && (said(notify, -1) & IN_MODIFY) && waiting(notify) == 0);
    check(close(below) == 0 && (said(notify, -1) & (IN_CLOSE_NOWRITE | IN_ISDIR)) == (IN_CLOSE_NOWRITE | IN_ISDIR));
    check(close(plain) == 0 && (said(notify, -1) & IN_CLOSE_WRITE) && close(read_only) == 0 && (said(notify, -1) & IN_CLOSE_NOWRITE));
    check((once = open("once", O_RDONLY)) >= 0 && said(other, of_once) == (IN_OPEN | IN_IGNORED));
    check(close(once) == 0 && waiting(other) == 0);
    check(unlink("gone") == 0 && (said(other, of_gone) & IN_DELETE_SELF));
    check(unlink("plain") == 0 && unlink("mapped") == 0 && unlink("once") == 0 && rmdir("below") == 0 && rmdir(directory) == 0);
    check(shared[0] == 'x' && private[0] == 'x');
    return ok();
}
