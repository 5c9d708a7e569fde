/* BProc's constants and types, version 4 of its programming interface, as shoal has them. */
#ifndef _SYS_BPROC_COMMON_H
#define _SYS_BPROC_COMMON_H

#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>

#define BPROC_API_VERSION 4

/* Numbers that are no node's. */
#define BPROC_NODE_MASTER (-1)
#define BPROC_NODE_SELF (-2)
#define BPROC_NODE_NONE (-3)
#define BPROC_NODE_ANY (-4)

/* For bproc_access. */
#define BPROC_X_OK 1

/* The longest word for the state of a node. */
#define BPROC_STATE_LEN 15

/* Values of errno beside the system's. */
#define BE_BASE 300
#define BE_INVALIDNODE (BE_BASE + 0)
#define BE_NODEDOWN (BE_BASE + 1)
#define BE_SAMENODE (BE_BASE + 2)
#define BE_SLAVEDIED (BE_BASE + 3)
#define BE_INVALIDPROC (BE_BASE + 4)

/* What of a process goes along in full. Memory that the other machine can have from a file of the same name goes by reference in any case. */
#define BPROC_DUMP_LIBS 1
#define BPROC_DUMP_EXEC 2
#define BPROC_DUMP_OTHER 4
#define BPROC_DUMP_ALL 7

#define BPROC_IO_MAX_LEN 16
#define BPROC_IO_FILE 0
#define BPROC_IO_SOCKET 1
#define BPROC_IO_MEMFILE 2
#define BPROC_IO_SEND_INFO 1
#define BPROC_IO_DELAY 2

/* Attributes of a node, which its file in /bpfs has as extended attributes. */
#define BPROC_XATTR_PREFIX "bproc."
#define BPROC_STATE_XATTR "bproc.state"
#define BPROC_ADDR_XATTR "bproc.addr"
#define BPROC_XATTR_MAX_NAME_SIZE 63
#define BPROC_XATTR_MAX_VALUE_SIZE 64
#define BPROC_XATTR_MAX 32

struct bproc_node_info_t {
    int node;
    char status[BPROC_STATE_LEN + 1];
    unsigned int mode; /* bits of 0111 */
    unsigned int user;
    unsigned int group;
    struct sockaddr addr;
    time_t atime;
    time_t mtime;
};

struct bproc_node_set_t {
    int size;
    int alloc;
    struct bproc_node_info_t *node;
};

#define BPROC_EMPTY_NODESET { 0, 0, 0 }
/* The address of what the set has of its node number `i`, from 0. */
#define bproc_node_set_node(ns, i) (&(ns)->node[(i)])

struct bproc_proc_info_t {
    int pid;
    int node;
};

struct bproc_io_t {
    int fd;
    short type;
    short flags;
    union {
        struct sockaddr addr;
        struct {
            int flags;
            int mode;
            long offset;
            char name[256];
        } file;
        struct {
            void *base;
            long size;
        } mem;
    } d;
};

struct bproc_version_t {
    char bproc_magic[3];
    uint8_t arch;
    uint32_t magic;
    char version_string[24];
};

#endif
