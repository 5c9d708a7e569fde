/* The peer of a pair of unix sockets is who made it, with the ids and groups of then, whoever the process is by now. */
#include "prog.h"
#include <grp.h>
#include <sys/socket.h>

enum { USER = 61001, GROUP = 61002, MADE = 3 };

static const struct made {
    uid_t uid;
    gid_t gid;
    int count;
    gid_t groups[2];
} makers[MADE] = {{0, 0, 0, {0}}, {USER, 0, 1, {7}}, {USER, GROUP, 2, {7, 4000}}};
static int pairs[MADE][2];

static void make(int which)
{
    const struct made *as = &makers[which];
    check(setgroups((size_t)as->count, as->groups) == 0 && setegid(as->gid) == 0 && seteuid(as->uid) == 0);
    check(socketpair(AF_UNIX, which == 1 ? SOCK_DGRAM : SOCK_STREAM, 0, pairs[which]) == 0);
    check(seteuid(0) == 0 && setegid(0) == 0);
}

static void is_made_by(int fd, const struct made *as)
{
    struct ucred peer;
    gid_t groups[8];
    struct stat file;
    socklen_t length = sizeof peer, size = sizeof groups;
    check(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size) == 0);
    if (peer.uid != as->uid || peer.gid != as->gid)
        dprintf(2, "the peer is %d:%d, not %d:%d\n", (int)peer.uid, (int)peer.gid, (int)as->uid, (int)as->gid);
    check(peer.pid == getpid() && peer.uid == as->uid && peer.gid == as->gid);
    check(size == (socklen_t)as->count * sizeof *groups && memcmp(groups, as->groups, size) == 0);
    check(fstat(fd, &file) == 0 && file.st_uid == as->uid && file.st_gid == as->gid);
}

static void all_are(void)
{
    for (int i = 0; i < MADE; i++)
        for (int end = 0; end < 2; end++)
            is_made_by(pairs[i][end], &makers[i]);
}

int main(int argc, char **argv)
{
    begin_carried(argc, argv);
    for (int i = 0; i < MADE; i++)
        make(i);
    check(setgroups(2, makers[2].groups) == 0 && setresgid(GROUP, GROUP, GROUP) == 0 && setresuid(USER, USER, USER) == 0);
    all_are();

    phase();

    all_are();
    check(getuid() == USER && geteuid() == USER && getegid() == GROUP && getgroups(0, NULL) == 2);
    check(write(pairs[1][0], "x", 1) == 1 && read(pairs[1][1], &(char){0}, 1) == 1);
    return ok();
}
