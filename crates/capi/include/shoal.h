/* shoal: Linux machines as one process space. What a C program may ask of it; link with libshoal.a or -lshoal.
 *
 * All of these may be called by several threads at once. They ask the daemon of the machine on which the caller runs: its socket is what SHOAL_SOCKET in
 * the environment says, or /run/shoal/shoal.sock. */
#ifndef SHOAL_H
#define SHOAL_H

#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Moves process `pid`, or with 0 the calling one with all its threads, to node `node`. 0 when it runs there. -1, with errno set, when it stays where it was:
 *   EINVAL       a number that no process or node can have
 *   ESRCH        there is no such process, no daemon on this machine, or no program `shoal`
 *   EPERM        something is in the way, the node is not up, or it is not the caller's to move: shoal_error() says what
 *   EOPNOTSUPP   the other node cannot take it: its processor or its kernel lacks something
 *   EAGAIN       it has changed all the time while it should have been moved
 *   EPROTO       the daemon does not answer as it should
 * or what the failed system call has said.
 *
 * Who moves itself is in this call meanwhile, on one side and then on the other. It holds nothing open then: a program `shoal`, which PATH or SHOAL_PROGRAM must
 * lead to, asks for it. That is no child of the caller; its signals, and what it waits for, are its own as before. Not to be called in a signal handler. */
int shoal_move(pid_t pid, int node);

/* As fork(2); the child goes on on node `node`, or on the front end (-1). Its standard streams are the descriptors `streams` of the caller, -1 where it is to have none, over the network;
 * with NULL it has no input, and what it writes comes to where the caller's standard output and error go. It has no other descriptors. If it cannot go there is no child: -1, with errno as
 * of shoal_move, or as sys/bproc.h has it for a node that there is not (BE_INVALIDNODE), that is not up (BE_NODEDOWN), on which the caller is (BE_SAMENODE). */
pid_t shoal_rfork(int node, const int streams[3]);

/* The same for languages that must know of a fork: calls the functions that are not NULL, `before` it, and then `parent` or `child` where it returns. */
pid_t shoal_rfork_calling(int node, const int streams[3], void (*before)(void), void (*parent)(void), void (*child)(void));

/* What was in the way the last time that a call of the calling thread has failed; "" before. It stays until the thread's next call. */
const char *shoal_error(void);

#ifdef __cplusplus
}
#endif

#endif
