/* Who the process is: numbers, names, limits, credentials and what else /proc and prctl tell. */
#include "prog.h"
#include <grp.h>
#include <linux/capability.h>
#include <linux/membarrier.h>
#include <linux/securebits.h>
#include <sys/auxv.h>
#include <sys/personality.h>

static const char *const asked[] = {"comm", "cmdline", "environ", "auxv", "personality", "oom_score_adj", "limits", "coredump_filter", "loginuid"};
enum { ASKED = sizeof asked / sizeof *asked, MOST = 64 * 1024 };
static char before[ASKED][MOST], after[MOST], links[3][PATH_MAX], ids[2][MOST];

static size_t read_all(const char *name, char *into)
{
    char path[PATH_MAX];
    size_t used = 0;
    ssize_t n;
    snprintf(path, sizeof path, "/proc/self/%s", name);
    int fd = open(path, O_RDONLY);
    if (fd < 0 && errno == ENOENT) { /* a kernel without it */
        into[0] = 0;
        return 0;
    }
    check(fd >= 0);
    while ((n = read(fd, into + used, MOST - 1 - used)) > 0)
        used += (size_t)n;
    into[used] = 0;
    close(fd);
    return used;
}

/* The lines of status that say whose it is. */
static void read_ids(char *into)
{
    static char text[MOST];
    static const char *const names[] = {"Umask", "Uid", "Gid", "Groups", "NSpid", "Cap", "NoNewPrivs", "Cpus_allowed:", "SigIgn"};
    read_all("status", text);
    into[0] = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (strncmp(line, names[i], strlen(names[i])) == 0)
                strcat(strcat(into, line), "\n");
}

enum { BITS = SECBIT_NO_SETUID_FIXUP | SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE };

/* Some of root's, for good or not, one of which a program that it executes has too; they stay when the ids change. */
static void have_some_capabilities(void)
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct sets[2];
    check(prctl(PR_CAPBSET_DROP, CAP_SYS_TIME, 0, 0, 0) == 0 && syscall(SYS_capget, &head, sets) == 0);
    sets[0].inheritable = 1 << CAP_NET_RAW | 1 << CAP_CHOWN;
    sets[0].permitted &= ~(1U << CAP_MKNOD);
    sets[0].effective = sets[0].permitted & ~(1U << CAP_NET_ADMIN);
    check(syscall(SYS_capset, &head, sets) == 0 && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_NET_RAW, 0, 0) == 0);
    check(prctl(PR_SET_SECUREBITS, BITS, 0, 0, 0) == 0);
}

/* A thread has some of that for itself. */
static struct {
    pthread_t thread;
    pthread_barrier_t ready, done;
    int nice, policy, priority, death, slack, io;
    cpu_set_t processors;
} other;

static void look_at_other(int *nice_value, int *policy, int *priority, int *death, int *slack, int *io, cpu_set_t *processors)
{
    struct sched_param param;
    *nice_value = getpriority(PRIO_PROCESS, gettid());
    *policy = sched_getscheduler(0);
    check(sched_getparam(0, &param) == 0 && prctl(PR_GET_PDEATHSIG, death) == 0);
    check(sched_getaffinity(0, sizeof *processors, processors) == 0);
    *priority = param.sched_priority;
    *slack = prctl(PR_GET_TIMERSLACK);
    *io = (int)syscall(SYS_ioprio_get, 1, 0);
}

static void *is_other(void *arg)
{
    struct sched_param param = {.sched_priority = 3};
    cpu_set_t processors;
    int nice_value, policy, priority, death, slack, io;
    check(setpriority(PRIO_PROCESS, gettid(), 7) == 0 && prctl(PR_SET_PDEATHSIG, SIGURG) == 0 && prctl(PR_SET_TIMERSLACK, 55555) == 0);
    /* Who may not has an ordinary one. */
    if (sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &param) != 0)
        check(errno == EPERM);
    check(syscall(SYS_ioprio_set, 1, 0, 2 << 13 | 6) == 0); /* best effort, nearly the last */
    look_at_other(&other.nice, &other.policy, &other.priority, &other.death, &other.slack, &other.io, &other.processors);
    pthread_barrier_wait(&other.ready);
    pthread_barrier_wait(&other.done);
    look_at_other(&nice_value, &policy, &priority, &death, &slack, &io, &processors);
    check(nice_value == other.nice && policy == other.policy && priority == other.priority && death == other.death);
    check(CPU_EQUAL(&processors, &other.processors) && slack == other.slack && io == other.io);
    return arg;
}

/* Where the kernel has no audit, or /proc is not the kernel's, nobody has logged in. */
static void log_in(void)
{
    int fd = open("/proc/self/loginuid", O_WRONLY);
    if (fd >= 0)
        dprintf(fd, "4711");
    close(fd);
}

int main(int argc, char **argv)
{
    static const char *const link_names[] = {"exe", "cwd", "root"};
    size_t lengths[ASKED];
    begin_carried(argc, argv);
    log_in();
    int slack, reaper = 0, death = 0;
    struct rlimit limit = {1000, 2000};
    gid_t groups[] = {7, 4000, 50};
    cpu_set_t set;
    check(setrlimit(RLIMIT_NOFILE, &limit) == 0 && umask(0137) != (mode_t)-1 && chdir("/usr/share") == 0);
    check(prctl(PR_SET_NAME, "carried") == 0 && prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    check(prctl(PR_SET_TIMERSLACK, 77777) == 0 && personality(ADDR_NO_RANDOMIZE) != -1);
    check(nice(3) >= 0 && (getsid(0) == getpid() || getpgrp() == getpid() || setsid() == getpid()));
    pid_t session = getsid(0), group = getpgrp();
    struct sched_param param = {0};
    check(sched_setscheduler(0, SCHED_BATCH, &param) == 0);
    int dumped = open("/proc/self/coredump_filter", O_WRONLY);
    check(dumped >= 0 ? write(dumped, "0x5", 3) == 3 && close(dumped) == 0 : errno == ENOENT);
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    check(sched_setaffinity(0, sizeof set, &set) == 0);
    if (geteuid() == 0) {
        int fd = open("/proc/self/oom_score_adj", O_WRONLY);
        check(fd >= 0 && write(fd, "123", 3) == 3 && close(fd) == 0);
        have_some_capabilities();
        check(setgroups(3, groups) == 0 && setresgid(4000, 4001, 4002) == 0 && setresuid(0, 1000, 1001) == 0);
    }
    pthread_barrier_init(&other.ready, NULL, 2), pthread_barrier_init(&other.done, NULL, 2);
    check(pthread_create(&other.thread, NULL, is_other, NULL) == 0);
    pthread_barrier_wait(&other.ready);
    check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_PDEATHSIG, SIGWINCH) == 0);
    check(prctl(PR_SET_DUMPABLE, 1) == 0);
    check(syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0);
    check(syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0) == -1 && errno == EPERM);
    pid_t own = getpid();
    int bits = prctl(PR_GET_SECUREBITS);
    check(geteuid() != 1000 || bits == BITS);
    for (int i = 0; i < ASKED; i++)
        lengths[i] = read_all(asked[i], before[i]);
    for (int i = 0; i < 3; i++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/self/%s", link_names[i]);
        check(readlink(path, links[i], PATH_MAX) > 0);
    }
    read_ids(ids[0]);

    phase();

    check(getpid() == own && gettid() == own && (session != own || getsid(0) == own));
    check(group != own || getpgrp() == own);
    for (int i = 0; i < ASKED; i++) {
        if (read_all(asked[i], after) != lengths[i] || memcmp(before[i], after, lengths[i]) != 0)
            dprintf(2, "%s: %s\nbefore: %s\n", asked[i], after, before[i]);
        check(read_all(asked[i], after) == lengths[i] && memcmp(before[i], after, lengths[i]) == 0);
    }
    for (int i = 0; i < 3; i++) {
        char path[64], now[PATH_MAX] = "";
        snprintf(path, sizeof path, "/proc/self/%s", link_names[i]);
        check(readlink(path, now, PATH_MAX) > 0 && strcmp(now, links[i]) == 0);
    }
    read_ids(ids[1]);
    if (strcmp(ids[0], ids[1]) != 0)
        dprintf(2, "before:\n%safter:\n%s", ids[0], ids[1]);
    check(strcmp(ids[0], ids[1]) == 0);
    slack = prctl(PR_GET_TIMERSLACK);
    check(slack == 77777 && prctl(PR_GET_CHILD_SUBREAPER, &reaper) == 0 && reaper == 1);
    check(prctl(PR_GET_PDEATHSIG, &death) == 0 && death == SIGWINCH && prctl(PR_GET_DUMPABLE) == 1);
    check(getpriority(PRIO_PROCESS, 0) == 3 && sched_getscheduler(0) == SCHED_BATCH);
    check(syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0);
    check(syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0) == -1 && errno == EPERM);
    check(getauxval(AT_PAGESZ) == 4096 && prctl(PR_GET_SECUREBITS) == bits);
    pthread_barrier_wait(&other.done);
    check(pthread_join(other.thread, NULL) == 0 && prctl(PR_SET_DUMPABLE, 0) == 0);

    phase();

    check(prctl(PR_GET_DUMPABLE) == 0 && prctl(PR_GET_SECUREBITS) == bits);
    return ok();
}
