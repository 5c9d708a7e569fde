/* A look at a unix socket from SO_PEEK_OFF sees an empty message once; it stays, but looks go past it from then on. */
#include "prog.h"
#include <sys/socket.h>

int main(int argc, char **argv)
{
    int ends[2], from = 0;
    char text[8];
    begin(argc, argv);
    check(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0);
    check(send(ends[0], "", 0, 0) == 0 && send(ends[0], "full", 4, 0) == 4);
    check(setsockopt(ends[1], SOL_SOCKET, SO_PEEK_OFF, &from, sizeof from) == 0);
    check(recv(ends[1], text, sizeof text, MSG_PEEK) == 0);
    check(recv(ends[1], text, sizeof text, MSG_PEEK) == 4);
    check(setsockopt(ends[1], SOL_SOCKET, SO_PEEK_OFF, &from, sizeof from) == 0);
    check(recv(ends[1], text, sizeof text, MSG_PEEK) == 4); /* not 0 again */
    check(recv(ends[1], text, sizeof text, 0) == 0 && recv(ends[1], text, sizeof text, 0) == 4);
    return ok();
}
