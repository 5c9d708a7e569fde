/* What the bench runs, bare and on a node: space [pinned] MODE [ARGUMENT...], pinned to the processor that it starts on. Times are medians in nanoseconds, one number on a line. */
#define _GNU_SOURCE
#include "measure.h"
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void once_fork(void)
{
	pid_t pid = fork();
	if (pid < 0)
		fail("fork");
	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
}

static char *self;

static void once_exec(void)
{
	pid_t pid = fork();
	if (pid < 0)
		fail("fork");
	if (pid == 0) {
		execl(self, self, "end", (char *)NULL);
		_exit(127);
	}
	waitpid(pid, NULL, 0);
}

static pid_t peer;
static sigset_t answers;

/* There and back; the peer answers with SIGUSR2. */
static void once_kill(void)
{
	struct timespec patience = {5, 0};
	if (kill(peer, SIGUSR1))
		fail("kill");
	if (sigtimedwait(&answers, NULL, &patience) < 0)
		fail("no answer");
}

static void answer(void)
{
	sigset_t asked;
	siginfo_t info;
	sigemptyset(&asked);
	sigaddset(&asked, SIGUSR1);
	for (;;)
		if (sigwaitinfo(&asked, &info) == SIGUSR1)
			kill(info.si_pid, SIGUSR2);
}

static void block(void)
{
	sigset_t both;
	sigemptyset(&answers);
	sigaddset(&answers, SIGUSR2);
	both = answers;
	sigaddset(&both, SIGUSR1);
	sigprocmask(SIG_BLOCK, &both, NULL);
}

static void measure(void (*once)(void), int count)
{
	long *took = malloc(count * sizeof *took);
	for (int i = 0; i < count / 10 + 1; i++)
		once();
	for (int i = 0; i < count; i++) {
		long start = now();
		once();
		took[i] = now() - start;
	}
	qsort(took, count, sizeof *took, by_size);
	printf("%ld\n", took[count / 2]);
}

/* The program that ARGV names is the peer once it has written a byte. */
static void start_peer(char **argv)
{
	int told[2];
	char byte;
	if (pipe(told))
		fail("pipe");
	peer = fork();
	if (peer == 0) {
		dup2(told[1], 1);
		execvp(argv[0], argv);
		_exit(127);
	}
	close(told[1]);
	if (read(told[0], &byte, 1) != 1)
		fail("the peer did not start");
}

/* Takes what nobody else wants of a processor, so that it does not go to sleep. */
static void spin(void)
{
	struct sched_param none = {0};
	if (sched_setscheduler(0, SCHED_IDLE, &none) || prctl(PR_SET_PDEATHSIG, SIGKILL))
		fail("spin");
	for (;;)
		;
}

static void many(int count)
{
	for (int i = 0; i < count; i++) {
		pid_t pid = fork();
		if (pid < 0)
			fail("fork");
		if (pid == 0)
			break;
	}
	for (;;)
		pause();
}

static void pin(void)
{
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	if (sched_setaffinity(0, sizeof one, &one))
		fail("sched_setaffinity");
}

int main(int argc, char **argv)
{
	self = argv[0];
	if (argc > 2 && !strcmp(argv[1], "pinned")) {
		pin();
		argc--;
		argv++;
	}
	char *mode = argc > 1 ? argv[1] : "end";
	int count = argc > 2 ? atoi(argv[2]) : 0;
	if (!strcmp(mode, "end"))
		return 0;
	if (!strcmp(mode, "fork"))
		measure(once_fork, count);
	else if (!strcmp(mode, "exec"))
		measure(once_exec, count);
	else if (!strcmp(mode, "thread"))
		measure(once_thread, count);
	else if (!strcmp(mode, "many"))
		many(count);
	else if (!strcmp(mode, "spin"))
		spin();
	else if (!strcmp(mode, "answer")) {
		block();
		if (write(1, "+", 1) == 1)
			answer();
	} else if (!strcmp(mode, "ping")) { /* ping COUNT PEER... */
		block();
		start_peer(argv + 3);
		measure(once_kill, count);
		kill(peer, SIGTERM);
		waitpid(peer, NULL, 0);
	} else
		return 2;
	return 0;
}
