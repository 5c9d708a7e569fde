/* BProc's programming interface, version 4, answered by shoal: link with -lbproc (or -lshoal). Each function has a page: man 3 bproc.
 *
 * Unless something else is said here: 0 on success; -1 with errno set on failure, which bproc_strerror puts into words, and shoal_error (shoal.h) says in full.
 * All may be called by several threads at once and after fork(2). In a signal handler a call fails with EDEADLK if the signal has interrupted another call of the thread; handlers that interrupt
 * other functions that are not safe for it (signal-safety(7)), malloc among them, must not call any. */
#ifndef _SYS_BPROC_H
#define _SYS_BPROC_H

#include <sys/bproc_common.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Nodes. Anybody may ask; who may change something about a node is said in man 3 bproc. */
int bproc_numnodes(void);
int bproc_currnode(void);
int bproc_nodestatus(int node, char *status, int len);
int bproc_nodeaddr(int node, struct sockaddr *addr, int *size);
int bproc_nodeinfo(int node, struct bproc_node_info_t *info);
/* How many nodes there are; the set is initialised, has them, and is to be freed with bproc_nodeset_free. */
int bproc_nodelist(struct bproc_node_set_t *nodes);
/* The same; `fd` is a descriptor of bproc_notifier, which is not readable any more until something changes after this. */
int bproc_nodelist_(struct bproc_node_set_t *nodes, int fd);
/* How long the value is. */
int bproc_getnodeattr(int node, char *name, void *value, int size);
int bproc_setnodeattr(int node, char *name, void *value, int size);
int bproc_nodesetstatus(int node, char *status);
int bproc_chmod(int node, int mode);
int bproc_chown(int node, int user);
int bproc_chgrp(int node, int group);
int bproc_access(int node, int mode);
/* A descriptor that polls readable when the state of any node has changed. */
int bproc_notifier(void);
int bproc_nodereboot(int node);
int bproc_nodehalt(int node);
int bproc_nodepwroff(int node);
int bproc_nodereboot_async(int node);
int bproc_nodehalt_async(int node);
int bproc_nodepwroff_async(int node);
int bproc_nodechroot(int node, char *path);
int bproc_nodereconnect(int node, struct sockaddr *rem, int remlen, struct sockaddr *loc, int loclen);

/* Sets of nodes. */
int bproc_nodeset_init(struct bproc_node_set_t *ns, int size);
int bproc_nodeset_grow(struct bproc_node_set_t *ns, int size);
void bproc_nodeset_free(struct bproc_node_set_t *ns);
int bproc_nodeset_add(struct bproc_node_set_t *ns, struct bproc_node_info_t *info);
int bproc_nodeset_append(struct bproc_node_set_t *a, struct bproc_node_set_t *b);
int bproc_nodefilter(struct bproc_node_set_t *out, struct bproc_node_set_t *in, const char *str);
int bproc_nodespec(struct bproc_node_set_t *out, const char *str);

/* Processes. */
int bproc_pidnode(int pid);
/* How many there are; `*list` is to be freed with free(3). */
int bproc_proclist(int node, struct bproc_proc_info_t **list);

/* Starting and moving. */
int bproc_rexec(int node, const char *cmd, char *const argv[], char *const envp[]);
int bproc_rexec_io(int node, struct bproc_io_t *io, int iolen, const char *cmd, char *const argv[], char *const envp[]);
int bproc_move(int node);
int _bproc_move(int node, int flags);
int bproc_move_io(int node, struct bproc_io_t *io, int iolen);
int _bproc_move_io(int node, struct bproc_io_t *io, int iolen, int flags);
int bproc_rfork(int node);
int _bproc_rfork(int node, int flags);
int bproc_rfork_io(int node, struct bproc_io_t *io, int iolen);
int _bproc_rfork_io(int node, struct bproc_io_t *io, int iolen, int flags);
int bproc_execmove(int node, const char *cmd, char *const argv[], char *const envp[]);
int bproc_execmove_io(int node, struct bproc_io_t *io, int iolen, const char *cmd, char *const argv[], char *const envp[]);
int bproc_vrfork(int n, int *nodes, int *pids);
int _bproc_vrfork(int n, int *nodes, int *pids, int flags);
int bproc_vrfork_io(int n, int *nodes, int *pids, struct bproc_io_t *io, int iolen);
int _bproc_vrfork_io(int n, int *nodes, int *pids, struct bproc_io_t *io, int iolen, int flags);
int bproc_vexecmove(int n, int *nodes, int *pids, const char *cmd, char *const argv[], char *const envp[]);
int bproc_vexecmove_io(int n, int *nodes, int *pids, struct bproc_io_t *io, int iolen, const char *cmd, char *const argv[], char *const envp[]);
int bproc_execve(const char *cmd, char *const argv[], char *const envp[]);

/* Images of processes. */
int bproc_dump(int fd, int flags);
int bproc_undump(int fd);
/* The program is written before its first instruction, and the caller ends with status 0. */
int bproc_execdump(int fd, int flags, const char *cmd, char *const argv[], char *const envp[]);
int bproc_libclear(void);
int bproc_libadd(char *name);
int bproc_libdel(char *name);
/* The length of `*list`, in which each name ends with a zero; to be freed with free(3). */
int bproc_liblist(char **list);

const char *bproc_strerror(int number);
int bproc_version(struct bproc_version_t *version);

#ifdef __cplusplus
}
#endif

#endif
