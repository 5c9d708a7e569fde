// has_rights HOW FILE SAID [SECOND]: has FILE open as descriptor 9, writes its number into SAID, and when there is a file SAID.exec executes SECOND, which is to be a copy of
// this program with more rights. HOW: "rw", or "path" (O_PATH), or "drop" (opened before it becomes user 61001).
// has_rights - SAID: says in SAID.runs that it runs, and when there is SAID.go says in SAID.got what can be read by descriptor 9.
#define _GNU_SOURCE
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static char path[4096];

static const char *with(const char *said, const char *end)
{
    snprintf(path, sizeof path, "%s%s", said, end);
    return path;
}

static void say(const char *said, const char *end, const char *text)
{
    char whole[4096];
    snprintf(whole, sizeof whole, "%s%s.new", said, end);
    FILE *out = fopen(whole, "w");
    if (!out || fputs(text, out) < 0 || fclose(out) || rename(whole, with(said, end)))
        exit(8);
}

static void until(const char *said, const char *end)
{
    while (access(with(said, end), F_OK))
        usleep(10000);
}

static void tell(const char *said)
{
    char text[7] = "";
    until(said, ".go");
    ssize_t count = pread(9, text, 6, 0);
    say(said, ".got", count > 0 ? text : "nothing");
    pause();
}

int main(int argc, char **argv)
{
    if (argc == 3) {
        // Whoever executes this by a set-user-ID file may not look at it.
        say(argv[2], ".runs", "yes");
        tell(argv[2]);
    }
    int how = strcmp(argv[1], "path") ? O_RDWR : O_PATH;
    int fd = open(argv[2], how);
    if (fd < 0 || dup2(fd, 9) != 9 || close(fd))
        return 9;
    if (!strcmp(argv[1], "drop") && (setgroups(0, NULL) || setresgid(61001, 61001, 61001) || setresuid(61001, 61001, 61001)))
        return 7;
    char number[20];
    snprintf(number, sizeof number, "%d", (int)getpid());
    say(argv[3], "", number);
    if (argc > 4) {
        until(argv[3], ".exec");
        execl(argv[4], argv[4], "-", argv[3], NULL);
        return 6;
    }
    tell(argv[3]);
}
