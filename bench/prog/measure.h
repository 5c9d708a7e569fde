/* What the programs of the benches share. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

/* Nanoseconds. */
static long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
	long x = *(const long *)a, y = *(const long *)b;
	return (x > y) - (x < y);
}

static void *nothing(void *x)
{
	return x;
}

static void once_thread(void)
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, nothing, NULL))
		fail("pthread_create");
	pthread_join(thread, NULL);
}
