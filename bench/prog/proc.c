/* What `./x bench proc` runs: proc MODE ARGUMENT... Times are in nanoseconds, one number on a line. */
#define _GNU_SOURCE
#include "measure.h"
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *path;

/* As ps and top read a file of /proc. */
static void once_read(void)
{
	char buffer[4096];
	int fd = open(path, O_RDONLY);
	if (fd < 0 || read(fd, buffer, sizeof buffer) < 0)
		fail(path);
	close(fd);
}

static void once_link(void)
{
	char buffer[4096];
	if (readlink(path, buffer, sizeof buffer) < 0)
		fail(path);
}

static void median(void (*once)(void), int count)
{
	long *times = calloc(count, sizeof *times);
	for (int i = 0; i < count; i++) {
		long start = now();
		once();
		times[i] = now() - start;
	}
	qsort(times, count, sizeof *times, by_size);
	printf("%ld\n", times[count / 2]);
}

/* A command whose output nobody reads. */
static void run(char **argv)
{
	long start = now();
	pid_t pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_WRONLY);
		dup2(null, 1);
		execvp(argv[0], argv);
		_exit(127);
	}
	int status;
	if (waitpid(pid, &status, 0) != pid)
		fail(argv[0]);
	if (status)
		fail_as(argv[0], WIFSIGNALED(status) ? "ended by signal" : "ended with status",
			WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	printf("%ld\n", now() - start);
}

static void many(int count)
{
	for (int i = 0; i < count && fork(); i++)
		;
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	path = argv[2];
	if (!strcmp(argv[1], "read"))
		median(once_read, atoi(argv[3]));
	else if (!strcmp(argv[1], "link"))
		median(once_link, atoi(argv[3]));
	else if (!strcmp(argv[1], "time"))
		run(argv + 2);
	else if (!strcmp(argv[1], "many"))
		many(atoi(argv[2]));
	else
		return 2;
	return 0;
}
