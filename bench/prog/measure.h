/* What the programs of the benches share. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* A failure that has no errno. */
static void fail_as(const char *what, const char *why, int number)
{
	fprintf(stderr, "%s: %s %d\n", what, why, number);
	exit(1);
}

/* What has no errno is not "Success". */
static void fail(const char *what)
{
	if (errno)
		perror(what);
	else
		fprintf(stderr, "%s: failed\n", what);
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
	int error = pthread_create(&thread, NULL, nothing, NULL);
	if (error)
		fail_as("pthread_create", "error", error);
	pthread_join(thread, NULL);
}
