/* numbered take FILE: writes its PID there, takes queued signals, and says how many had the next number each until the one that ends it.
 * numbered send PID COUNT GAP_US: queues so many, and the end. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define END -1

static void queue(int pid, int number)
{
	union sigval value = { .sival_int = number };

	while (sigqueue(pid, SIGRTMIN + 1, value) != 0) {
		if (errno != EAGAIN) {
			perror("sigqueue");
			exit(1);
		}
		usleep(1000);
	}
}

static int take(const char *file)
{
	int next = 0;
	sigset_t set;
	siginfo_t info;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	FILE *out = fopen(file, "w");
	if (!out || fprintf(out, "%d\n", getpid()) < 0 || fclose(out) != 0)
		return 2;
	for (;;) {
		if (sigwaitinfo(&set, &info) < 0)
			continue;
		int number = info.si_value.sival_int;
		if (number == END)
			break;
		if (number != next)
			printf("%d came where %d was to\n", number, next);
		next = number + 1;
	}
	printf("%d in their turn\n", next);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "take") == 0)
		return take(argv[2]);
	if (argc != 5)
		return 2;
	int pid = atoi(argv[2]), count = atoi(argv[3]), gap = atoi(argv[4]);
	for (int number = 0; number < count; number++) {
		queue(pid, number);
		if (gap)
			usleep(gap);
	}
	queue(pid, END);
	return 0;
}
