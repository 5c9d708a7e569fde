/* What a program learns of nodes and sets of them: argument 1 is how many nodes there are, and the program runs on the front end. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <shoal.h>
#include <sys/bproc.h>
#include <netinet/in.h>
#include <unistd.h>

#define MUST(what) \
    do { \
        if (!(what)) { \
            printf("line %d: %s: %s: %s\n", __LINE__, #what, bproc_strerror(errno), shoal_error()); \
            return 1; \
        } \
    } while (0)

static int fails(int returned, int with)
{
    return returned == -1 && errno == with;
}

int main(int argc, char **argv)
{
    int nodes = argc > 1 ? atoi(argv[1]) : 0, i;
    struct bproc_node_set_t all, some = BPROC_EMPTY_NODESET, twice = BPROC_EMPTY_NODESET;
    struct bproc_node_info_t info;
    struct bproc_version_t version;
    struct sockaddr_in address;
    struct bproc_proc_info_t *processes;
    char state[BPROC_STATE_LEN + 1], value[64];
    int size = sizeof address;

    MUST(bproc_version(&version) == 0 && version.magic == BPROC_API_VERSION && strncmp(version.version_string, "shoal", 5) == 0);
    MUST(bproc_currnode() == BPROC_NODE_MASTER);
    MUST(bproc_numnodes() == nodes);
    MUST(bproc_nodestatus(0, state, sizeof state) == 0 && strcmp(state, "up") == 0);
    MUST(bproc_nodestatus(0, state, 2) == 0 && strcmp(state, "u") == 0);
    MUST(fails(bproc_nodestatus(9999, state, sizeof state), BE_INVALIDNODE));
    MUST(fails(bproc_nodestatus(0, NULL, 1), EFAULT));
    MUST(bproc_nodeinfo(0, &info) == 0 && info.node == 0 && info.user == 0 && info.group == 0 && info.mode == 0111);
    MUST(info.addr.sa_family == AF_INET);
    MUST(bproc_nodeaddr(0, (struct sockaddr *)&address, &size) == 0 && size == sizeof address);
    MUST(memcmp(&address, &info.addr, sizeof address) == 0 && address.sin_addr.s_addr != 0);
    MUST(bproc_nodeinfo(BPROC_NODE_MASTER, &info) == 0 && info.node == -1);
    MUST(bproc_nodeinfo(BPROC_NODE_SELF, &info) == 0 && info.node == -1);
    MUST(bproc_nodelist(&all) == nodes && all.size == nodes);
    for (i = 0; i < nodes; i++)
        MUST(bproc_node_set_node(&all, i)->node == i);
    MUST(bproc_nodefilter(&some, &all, "0,up") == 0 && some.size == nodes);
    bproc_nodeset_free(&some);
    MUST(bproc_nodefilter(&some, &all, "1-") == 0 && some.size == nodes - 1);
    MUST(bproc_nodeset_append(&twice, &some) == 0 && bproc_nodeset_append(&twice, &twice) == 0);
    MUST(twice.size == 2 * (nodes - 1));
    MUST(bproc_nodeset_add(&twice, &info) == 0 && bproc_node_set_node(&twice, twice.size - 1)->node == -1);
    bproc_nodeset_free(&some);
    bproc_nodeset_free(&twice);
    MUST(twice.size == 0 && twice.node == NULL);
    MUST(bproc_nodespec(&some, "!up") == 0 && some.size == 0);
    MUST(fails(bproc_nodespec(&some, "9999"), BE_INVALIDNODE));
    MUST(fails(bproc_nodespec(&some, "0-,/"), EINVAL));
    MUST(fails(bproc_nodespec(&some, NULL), EFAULT));
    MUST(bproc_getnodeattr(0, "bproc.state", value, sizeof value) == 2 && memcmp(value, "up", 2) == 0);
    MUST(bproc_getnodeattr(0, "bproc.state", NULL, 0) == 2);
    MUST(fails(bproc_getnodeattr(0, "bproc.state", value, 1), ERANGE));
    MUST(fails(bproc_getnodeattr(0, "nothing", value, sizeof value), ENODATA));
    MUST(bproc_setnodeattr(0, "rack", "seven", 5) == 0);
    MUST(bproc_getnodeattr(0, "rack", value, sizeof value) == 5 && memcmp(value, "seven", 5) == 0);
    MUST(bproc_access(0, BPROC_X_OK) == 0 && fails(bproc_access(0, 7), EINVAL) && fails(bproc_access(9999, 0), BE_INVALIDNODE));

    /* Whoever waits hears of a change, and not again until the next. */
    struct pollfd told = {bproc_notifier(), POLLIN, 0};
    MUST(told.fd >= 0);
    MUST(bproc_nodelist_(&some, told.fd) == nodes);
    while (poll(&told, 1, 300) == 1) {
        bproc_nodeset_free(&some);
        MUST(bproc_nodelist_(&some, told.fd) == nodes);
    }
    MUST(bproc_nodesetstatus(1, "drained") == 0);
    MUST(poll(&told, 1, 5000) == 1);
    MUST(bproc_nodelist_(&some, told.fd) == nodes && strcmp(bproc_node_set_node(&some, 1)->status, "drained") == 0);
    MUST(fails(bproc_rfork(1), BE_NODEDOWN) || geteuid() == 0);
    MUST(bproc_nodesetstatus(1, "up") == 0);
    MUST(fails(bproc_nodesetstatus(1, "two words"), EINVAL) && fails(bproc_nodesetstatus(9999, "up"), BE_INVALIDNODE));
    MUST(bproc_chown(1, 61001) == 0 && bproc_chgrp(1, 61001) == 0 && bproc_chmod(1, 0100) == 0);
    MUST(bproc_nodeinfo(1, &info) == 0 && info.user == 61001 && info.group == 61001 && info.mode == 0100);
    MUST(bproc_chown(1, 0) == 0 && bproc_chgrp(1, 0) == 0 && bproc_chmod(1, 0111) == 0);
    MUST(fails(bproc_nodereconnect(0, NULL, 0, NULL, 0), EOPNOTSUPP));

    MUST(bproc_pidnode(getpid()) == -1 && fails(bproc_pidnode(0), BE_INVALIDPROC) && fails(bproc_pidnode(4194303), BE_INVALIDPROC));
    MUST(bproc_proclist(0, &processes) == 0);
    free(processes);
    MUST(fails(bproc_proclist(9999, &processes), BE_INVALIDNODE) && fails(bproc_proclist(0, NULL), EFAULT));
    puts("ok");
    return 0;
}
