/* Programs that are carried. move small: nothing but itself; move threads: three beside the first; move memory MB RATE: so much memory, of
 * which it writes RATE MB/s, page by page. Each writes a line when it is there, and waits. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <time.h>

/* What has no errno is not "Success". */
static void fail(const char *what)
{
	if (errno)
		perror(what);
	else
		fprintf(stderr, "%s: failed\n", what);
	exit(1);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void *wait_on(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static uint64_t seed = 88172645463325252ull;

static uint64_t next_random(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	return seed ^= seed << 17;
}

static void there(void)
{
	puts("there");
	fflush(stdout);
}

static void memory(size_t mib, double rate)
{
	size_t words = (mib << 20) / 8, pages = (mib << 20) / 4096;
	uint64_t *all = mmap(NULL, mib << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (all == MAP_FAILED)
		fail("mmap");
	for (size_t i = 0; i < words; i++)
		all[i] = next_random();
	there();
	double owed = 0;
	for (double then = now();;) {
		usleep(1000);
		double t = now();
		for (owed += rate * 256 * (t - then); owed >= 1; owed--)
			all[next_random() % pages * 512]++;
		then = t;
	}
}

int main(int argc, char **argv)
{
	pthread_t thread;
	close_range(3, ~0U, 0);
	if (argc > 3 && !strcmp(argv[1], "memory"))
		memory(atol(argv[2]), atof(argv[3]));
	for (int i = 0; argc > 1 && !strcmp(argv[1], "threads") && i < 3; i++)
		if ((errno = pthread_create(&thread, NULL, wait_on, NULL)))
			fail("pthread_create");
	there();
	wait_on(NULL);
}
