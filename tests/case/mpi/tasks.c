// A PVM program: the first task spawns eight on all hosts; they say where they are, pass a token round, and sum up in a group.
#include <pvm3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TASKS 8

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "first";
    int tids[TASKS], me, number = -1, token = 0, sum;
    pvm_mytid();
    if (!strcmp(way, "first") || !strcmp(way, "hold")) {
        char *words[] = {!strcmp(way, "hold") ? "stays" : "other", NULL}, host[256];
        if (pvm_spawn(argv[0], words, PvmTaskDefault, "", TASKS, tids) != TASKS)
            return printf("not all were spawned: %d\n", tids[TASKS - 1]), pvm_exit(), 1;
        for (int i = 0; i < TASKS; i++) {
            pvm_initsend(PvmDataDefault);
            pvm_pkint(&i, 1, 1);
            pvm_pkint(tids, TASKS, 1);
            pvm_send(tids[i], 1);
        }
        for (int i = 0; i < TASKS; i++) {
            pvm_recv(-1, 2);
            pvm_upkstr(host);
            printf("task on %s\n", host);
        }
        if (!strcmp(way, "hold")) {
            printf("rea" "dy\n"), fflush(stdout);
            pvm_recv(-1, 9);
        }
        pvm_recv(tids[0], 3);
        pvm_upkint(&token, 1, 1);
        printf("ring %d\n", token);
        pvm_recv(tids[0], 4);
        pvm_upkint(&sum, 1, 1);
        printf("sum %d\n", sum);
        pvm_exit();
        return 0;
    }
    char host[256];
    gethostname(host, sizeof host);
    pvm_recv(pvm_parent(), 1);
    pvm_upkint(&number, 1, 1);
    pvm_upkint(tids, TASKS, 1);
    pvm_initsend(PvmDataDefault);
    pvm_pkstr(host);
    pvm_send(pvm_parent(), 2);
    if (!strcmp(way, "stays"))
        for (;;)
            sleep(1000);
    if (number > 0)
        pvm_recv(tids[number - 1], 5), pvm_upkint(&token, 1, 1);
    token++;
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&token, 1, 1);
    pvm_send(tids[(number + 1) % TASKS], 5);
    if (number == 0) {
        pvm_recv(tids[TASKS - 1], 5);
        pvm_upkint(&token, 1, 1);
        pvm_initsend(PvmDataDefault);
        pvm_pkint(&token, 1, 1);
        pvm_send(pvm_parent(), 3);
    }
    me = pvm_joingroup("all");
    sum = number;
    pvm_barrier("all", TASKS);
    int root = pvm_getinst("all", tids[0]);
    int status = pvm_reduce(PvmSum, &sum, 1, PVM_INT, 6, "all", root);
    if (status < 0)
        sum = status;
    if (me == root) {
        pvm_initsend(PvmDataDefault);
        pvm_pkint(&sum, 1, 1);
        pvm_send(pvm_parent(), 4);
    }
    pvm_barrier("all", TASKS);
    pvm_lvgroup("all");
    pvm_exit();
    return 0;
}
