/* All that a program can see of its terminal is as it was: `terminal HOW FILE` sets it up, waits until the file is there, and looks. */
#define _GNU_SOURCE
#include <asm/termbits.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/kcmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

extern char *ttyname(int);

#define check(cond)                                                                                                    \
    do {                                                                                                               \
        if (!(cond)) {                                                                                                 \
            dprintf(1, "\r\nline %d: %s (errno %d)\r\n", __LINE__, #cond, errno);                                      \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

struct state {
    struct termios2 modes;
    struct winsize size;
    int exclusive, line, session, foreground, flags[10], close_on_exec[10];
    uid_t uid;
    gid_t gid;
    mode_t mode;
};

enum { READS = 5, WRITES, TTY, DUP, LAST };

static int winches;

static void winch(int sig)
{
    winches += sig == SIGWINCH;
}

static void look(struct state *s)
{
    struct stat file;
    memset(s, 0, sizeof *s);
    check(ioctl(0, TCGETS2, &s->modes) == 0 && ioctl(0, TIOCGWINSZ, &s->size) == 0);
    check(ioctl(0, TIOCGEXCL, &s->exclusive) == 0 && ioctl(0, TIOCGETD, &s->line) == 0);
    check(ioctl(0, TIOCGSID, &s->session) == 0 && ioctl(0, TIOCGPGRP, &s->foreground) == 0);
    check(fstat(0, &file) == 0);
    s->uid = file.st_uid, s->gid = file.st_gid, s->mode = file.st_mode;
    for (int fd = 0; fd < LAST; fd++) {
        s->flags[fd] = fcntl(fd, F_GETFL) & ~0100000; /* O_LARGEFILE, which open(2) sets and ioctl_tty(2) does not */
        s->close_on_exec[fd] = fcntl(fd, F_GETFD);
    }
}

static int same_file(int one, int other)
{
    return syscall(SYS_kcmp, getpid(), getpid(), KCMP_FILE, one, other) == 0;
}

static void leads(int fd, const char *where)
{
    char link[PATH_MAX] = "", path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    check(readlink(path, link, sizeof link - 1) > 0);
    check(strcmp(link, where) == 0);
}

/* Names, sharing, and that all of them are the controlling terminal. */
static void files(void)
{
    char *name = ttyname(0);
    check(name && strncmp(name, "/dev/pts/", 9) == 0);
    for (int fd = 0; fd < LAST; fd++)
        if (fd <= 2 || fd >= READS)
            leads(fd, fd == TTY ? "/dev/tty" : name);
    check(same_file(0, 1) && same_file(0, 2) && same_file(TTY, DUP) == 0 && same_file(READS, DUP));
    check(write(READS, "x", 1) == -1 && errno == EBADF);
    check(!same_file(0, READS) && !same_file(0, WRITES) && !same_file(0, TTY));
    struct winsize one, other;
    int again = open("/dev/tty", O_RDWR), exclusive = 0;
    if (again == -1) { /* as ioctl_tty(2) says of TIOCEXCL */
        check(errno == EBUSY && ioctl(0, TIOCGEXCL, &exclusive) == 0 && exclusive && geteuid() != 0);
        return;
    }
    check(ioctl(again, TIOCGWINSZ, &one) == 0 && ioctl(0, TIOCGWINSZ, &other) == 0);
    check(memcmp(&one, &other, sizeof one) == 0 && close(again) == 0);
}

static void make_modes(const char *how)
{
    struct termios2 modes;
    check(ioctl(0, TCGETS2, &modes) == 0);
    modes.c_iflag |= IXANY | IUTF8 | IXOFF | IGNPAR;
    modes.c_cflag = (modes.c_cflag & ~CBAUD) | BOTHER;
    modes.c_ispeed = modes.c_ospeed = 12345;
    modes.c_cc[VKILL] = 0x1f;
    modes.c_cc[VEOL] = '!';
    modes.c_cc[VEOL2] = '?';
    modes.c_lflag |= TOSTOP | NOFLSH;
    if (strcmp(how, "lines") != 0) {
        modes.c_lflag &= ~(ICANON | ECHO);
        modes.c_cc[VMIN] = 3;
        modes.c_cc[VTIME] = 7;
        modes.c_oflag &= ~ONLCR;
    }
    if (strcmp(how, "extern") == 0)
        modes.c_lflag |= EXTPROC | ICANON;
    check(ioctl(0, TCSETS2, &modes) == 0);
}

int main(int argc, char **argv)
{
    struct state before, after;
    struct winsize size = {41, 101, 1001, 2002};
    check(argc == 3);
    make_modes(argv[1]);
    check(ioctl(0, TIOCSWINSZ, &size) == 0);
    signal(SIGWINCH, winch);
    check(open("/dev/null", O_RDONLY) == 3 && open("/dev/null", O_RDONLY) == 4);
    check(open(ttyname(0), O_RDONLY | O_NONBLOCK | O_NOCTTY) == READS);
    check(open(ttyname(0), O_WRONLY | O_APPEND | O_CLOEXEC) == WRITES && open("/dev/tty", O_RDWR | O_CLOEXEC) == TTY);
    check(dup(READS) == DUP && fchmod(0, 0622) == 0 && ioctl(0, TIOCEXCL) == 0);
    files();
    look(&before);
    check(before.session == getpid() && before.foreground == getpid() && before.exclusive);
    check(write(1, "up\n", 3) == 3);
    while (access(argv[2], F_OK) != 0)
        usleep(10000);
    look(&after);
    check(memcmp(&before, &after, sizeof before) == 0);
    check(winches == 0);
    files();
    /* What was typed meanwhile: of a line that has no end nothing can be read. */
    char got[16] = "";
    ssize_t count = read(READS, got, sizeof got);
    if (strcmp(argv[1], "lines") == 0)
        check(count == -1 && errno == EAGAIN);
    else
        check(count == 5 && strcmp(got, "typed") == 0);
    check(write(WRITES, "well\n", 5) == 5);
    return 0;
}
