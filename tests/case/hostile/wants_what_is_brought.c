// wants_what_is_brought FILE: makes a process whose number goes into FILE and which is moved there and back while this one takes, as fast as it can, every
// descriptor that its user may take from it. "told" when it sees that another program takes the place of the process, "rights" when one of them is a program
// by which it comes to capabilities.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/// What a program that we execute may do, it or whoever is called so.
static int gives_capabilities(int program)
{
	char *args[] = { "shoal", "vessel", 0 }, *none[] = { 0 }, path[64], text[4096];
	pid_t child = fork();
	if (child == 0) {
		syscall(SYS_execveat, program, "", args, none, AT_EMPTY_PATH);
		_exit(1);
	}
	usleep(100 * 1000);
	sprintf(path, "/proc/%d/status", child);
	FILE *file = fopen(path, "r");
	size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
	text[length] = 0;
	char *line = strstr(text, "CapPrm:");
	syscall(SYS_kill, child, 9);
	waitpid(child, 0, 0);
	return line && strtoull(line + 7, 0, 16) != 0;
}

int main(int argc, char **argv)
{
	(void)argc;
	pid_t child = fork();
	if (child == 0) {
		int null = open("/dev/null", O_RDWR);
		for (int i = 0; i < 3; i++)
			dup2(null, i);
		close(null);
		for (;;)
			pause();
	}
	FILE *file = fopen(argv[1], "w");
	fprintf(file, "%d\n", child);
	fclose(file);
	int handle = syscall(SYS_pidfd_open, child, 0), told = 0;
	while (waitpid(child, 0, WNOHANG) == 0) {
		for (int number = 3; number < 14; number++) {
			int got = syscall(SYS_pidfd_getfd, handle, number, 0);
			struct stat seen;
			if (got < 0)
				continue;
			// A socket and what comes over it: a program is a file.
			if (fstat(got, &seen) == 0 && S_ISREG(seen.st_mode) && (seen.st_mode & 0111)) {
				if (!told)
					puts("told"), fflush(stdout);
				told = 1;
				// The smallest is the one that does nothing.
				if (seen.st_size > 4096 && gives_capabilities(got)) {
					puts("rights");
					return 1;
				}
			}
			close(got);
		}
	}
	return 0;
}
