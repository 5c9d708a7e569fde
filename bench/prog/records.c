/* What task records cost whoever forks: records MODE WATERMARK CGROUP, as root. Prints the least and the middle time in microseconds.
 * MODE: none (no records), poll (a real-time reader polls them), silent (it waits in epoll without interest in them),
 * alone (nobody polls). CGROUP: a directory of the cgroup v2 tree that records are limited to, or -. See docs/decisions/records-without-wakes.md. */
#define _GNU_SOURCE
#include "measure.h"
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGES = 256, ROUNDS = 4000 };

static void once_fork(void)
{
	pid_t pid = fork();
	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
}

static void once_vfork(void)
{
	pid_t pid = vfork();
	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
}

static void measure(const char *name, void (*once)(void))
{
	static long took[ROUNDS];
	for (int i = 0; i < ROUNDS; i++) {
		long start = now();
		once();
		took[i] = now() - start;
	}
	qsort(took, ROUNDS, sizeof *took, by_size);
	printf("%s %.1f %.1f\n", name, took[0] / 1e3, took[ROUNDS / 2] / 1e3);
}

static void record(int cpu, const char *mode, int watermark, int cgroup, int poller)
{
	struct perf_event_attr attr = {.size = sizeof attr, .type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_DUMMY};
	struct epoll_event interest = {.events = strcmp(mode, "poll") ? 0 : EPOLLIN};
	attr.task = attr.comm = attr.comm_exec = attr.exclude_kernel = attr.watermark = 1;
	attr.wakeup_watermark = watermark;
	int fd = syscall(SYS_perf_event_open, &attr, cgroup, cpu, -1, cgroup < 0 ? 0 : PERF_FLAG_PID_CGROUP);
	if (fd < 0)
		fail("perf_event_open");
	/* Read-only, so that it never fills. */
	if (mmap(NULL, (PAGES + 1) * 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED)
		fail("mmap");
	if (strcmp(mode, "alone") && epoll_ctl(poller, EPOLL_CTL_ADD, fd, &interest))
		fail("epoll_ctl");
}

static void run(const char *cgroup)
{
	if (strcmp(cgroup, "-")) {
		char path[4096];
		snprintf(path, sizeof path, "%s/cgroup.procs", cgroup);
		int fd = open(path, O_WRONLY);
		if (fd < 0 || write(fd, "0", 1) != 1)
			fail(path);
	}
	measure("thread", once_thread);
	measure("vfork", once_vfork);
	measure("fork", once_fork);
	exit(0);
}

int main(int argc, char **argv)
{
	struct sched_param first = {.sched_priority = 5};
	struct epoll_event ready;
	int poller = epoll_create1(EPOLL_CLOEXEC), cgroup = -1;
	if (argc != 4)
		return 2;
	if (strcmp(argv[3], "-") && (cgroup = open(argv[3], O_RDONLY)) < 0)
		fail(argv[3]);
	for (int cpu = 0; strcmp(argv[1], "none") && cpu < sysconf(_SC_NPROCESSORS_ONLN); cpu++)
		record(cpu, argv[1], atoi(argv[2]), cgroup, poller);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0)
		run(argv[3]);
	if (sched_setscheduler(0, SCHED_FIFO, &first))
		fail("sched_setscheduler");
	while (waitpid(child, NULL, WNOHANG) == 0)
		epoll_wait(poller, &ready, 1, 100);
	return 0;
}
