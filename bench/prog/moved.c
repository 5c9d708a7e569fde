/* Programs that are moved; each writes a line when it is there, and one at each SIGUSR1.
 *
 * moved small: looks at the clock and at the name of its machine all the time, and tells two gaps between looks at the clock since it told the last
 * (milliseconds): the one in which it came to another machine, and the largest. The first is how long it stood still; the second also knows of when
 * it waited for a processor, before or after.
 * moved threads: the same, beside three threads that wait. moved memory MB RATE: the same, with so much memory, of which it writes RATE MB/s,
 * page by page at random. moved asleep MB: has so much memory, and sleeps.
 * moved speed FILE: how long a system call, 64 MiB of memory copied, and 16 MiB read from FILE in pages take (nanoseconds).
 * moved source HOST PORT MB: sends so much to PORT of HOST, where moved sink PORT takes it, and tells how long that took (milliseconds). */
#define _GNU_SOURCE
#include "measure.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

static volatile sig_atomic_t asked;

static void ask(int sig)
{
	(void)sig;
	asked = 1;
}

static void there(void)
{
	signal(SIGUSR1, ask);
	puts("there");
	fflush(stdout);
}

static uint64_t seed = 88172645463325252ull;

static uint64_t next_random(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	return seed ^= seed << 17;
}

static uint64_t *fresh(size_t bytes)
{
	uint64_t *all = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (all == MAP_FAILED)
		fail("mmap");
	for (size_t i = 0; i < bytes / 8; i++)
		all[i] = next_random();
	return all;
}

/* Is it on another machine than at the last look? */
static int has_moved(void)
{
	static struct utsname was, is;
	uname(&is);
	if (!strcmp(was.nodename, is.nodename))
		return 0;
	was = is;
	return 1;
}

/* Writes `rate` MB/s of `pages` pages. */
static void watch(uint64_t *all, size_t pages, double rate)
{
	double owed = 0;
	long worst = 0, still = 0, last = 0;
	int moved = has_moved();
	there();
	for (long then = now();;) {
		long t = now(), gap = t - then;
		if (gap > worst)
			worst = gap;
		/* It may have come there before this look at the clock, or before the last. */
		if (moved)
			still = gap > last ? gap : last;
		moved = has_moved();
		last = gap;
		for (owed += rate * 256 * (double)(t - then) / 1e9; owed >= 1 && pages; owed--)
			all[next_random() % pages * 512]++;
		then = t;
		/* Asked before it has looked where it is now, it looks first. */
		if (asked && asked++ > 2 && !moved) {
			asked = 0;
			printf("%.4f %.4f\n", (double)still / 1e6, (double)worst / 1e6);
			fflush(stdout);
			worst = still = 0;
			then = now();
		}
	}
}

static void *wait_on(void *unused)
{
	for (;;)
		pause();
	return unused;
}

/* The middle one of some runs. */
static double middle(void (*run)(void *), void *with)
{
	long took[15];
	for (int i = 0; i < 15; i++) {
		long begun = now();
		run(with);
		took[i] = now() - begun;
	}
	qsort(took, 15, sizeof took[0], by_size);
	return (double)took[7];
}

static void calls(void *unused)
{
	(void)unused;
	for (int i = 0; i < 20000; i++)
		syscall(SYS_getppid);
}

static void copies(void *memory)
{
	memcpy((char *)memory + (64 << 20), memory, 64 << 20);
}

static void reads(void *fd)
{
	static char page[4096];
	for (off_t at = 0; at < 16 << 20; at += (off_t)sizeof page)
		if (pread(*(int *)fd, page, sizeof page, at) != (ssize_t)sizeof page)
			fail("pread");
}

static void speed(const char *path)
{
	uint64_t *memory = fresh(128 << 20);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		fail(path);
	there();
	for (;;) {
		while (!asked)
			usleep(1000);
		asked = 0;
		printf("%.2f %.0f %.0f\n", middle(calls, NULL) / 20000, middle(copies, memory), middle(reads, &fd));
		fflush(stdout);
	}
}

/* As much as a move gives to its connection at once. */
static char room[256 << 10];

static void sink(int port)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (fd < 0 || bind(fd, (struct sockaddr *)&any, sizeof any) || listen(fd, 4))
		fail("listen");
	there();
	for (;;) {
		int from = accept(fd, NULL, NULL);
		while (read(from, room, sizeof room) > 0)
			;
		if (write(from, "", 1) != 1)
			fail("write");
		close(from);
	}
}

/* Prints milliseconds, until the other side has it all. */
static void source(const char *host, int port, long mib)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	uint64_t *all = fresh((size_t)mib << 20);
	inet_pton(AF_INET, host, &to.sin_addr);
	long begun = now();
	if (connect(fd, (struct sockaddr *)&to, sizeof to))
		fail(host);
	for (size_t at = 0; at < (size_t)mib << 20;) {
		ssize_t some = write(fd, (char *)all + at, sizeof room);
		if (some < 0)
			fail("write");
		at += (size_t)some;
	}
	shutdown(fd, SHUT_WR);
	if (read(fd, room, 1) != 1)
		fail("read");
	printf("%.3f\n", (double)(now() - begun) / 1e6);
}

int main(int argc, char **argv)
{
	pthread_t thread;
	const char *mode = argc > 1 ? argv[1] : "small";
	close_range(3, ~0U, 0);
	if (!strcmp(mode, "source") && argc > 4)
		return source(argv[2], atoi(argv[3]), atol(argv[4])), 0;
	if (!strcmp(mode, "sink") && argc > 2)
		sink(atoi(argv[2]));
	if (!strcmp(mode, "speed") && argc > 2)
		speed(argv[2]);
	if (!strcmp(mode, "memory") && argc > 3) {
		size_t bytes = (size_t)atol(argv[2]) << 20;
		watch(fresh(bytes), bytes / 4096, atof(argv[3]));
	}
	if (!strcmp(mode, "asleep") && argc > 2) {
		fresh((size_t)atol(argv[2]) << 20);
		there();
		wait_on(NULL);
	}
	for (int i = 0; !strcmp(mode, "threads") && i < 3; i++)
		if ((errno = pthread_create(&thread, NULL, wait_on, NULL)))
			fail("pthread_create");
	watch(NULL, 0, 0);
}
