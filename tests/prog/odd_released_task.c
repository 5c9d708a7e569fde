/* Of a process that its parent is waiting for at this very moment /proc says that it has no parent, and group and session -1 or 0: it is dead, and what it was is
 * gone already. Who takes that for a change of parent or group is wrong. */
#include "prog.h"
#include <fcntl.h>

enum { SECONDS = 30 };

static volatile pid_t child;
static volatile int seen_stat, seen_status;

static int text_of(pid_t pid, const char *file, char *text, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        return 0;
    ssize_t length = read(fd, text, size - 1);
    close(fd);
    text[length > 0 ? length : 0] = 0;
    return length > 0;
}

static void *look(void *unused)
{
    char text[4096];
    (void)unused;
    while (!seen_stat || !seen_status) {
        char state;
        int ppid, pgid, sid;
        pid_t pid = child;
        if (pid != 0 && text_of(pid, "stat", text, sizeof text)) {
            check(sscanf(strrchr(text, ')') + 1, " %c %d %d %d", &state, &ppid, &pgid, &sid) == 4);
            if (pgid == -1) {
                check((state == 'Z' || state == 'X') && sid == -1);
                seen_stat = 1;
            }
        }
        if (pid != 0 && text_of(pid, "status", text, sizeof text)) {
            check(sscanf(strstr(text, "\nPPid:"), "\nPPid: %d", &ppid) == 1);
            if (ppid == 0) {
                check(strstr(text, "\nState:\tX") != NULL);
                seen_status = 1;
            }
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    time_t end = time(NULL) + SECONDS;
    begin(argc, argv);
    check(pthread_create(&thread, NULL, look, NULL) == 0);
    for (unsigned turn = 0; !seen_stat || !seen_status; turn++) {
        int status;
        pid_t pid = fork();
        check(pid >= 0);
        if (pid == 0)
            _exit(0);
        child = pid;
        for (volatile unsigned pause = 0; pause < turn % 300 * 20; pause++)
            ;
        check(waitpid(pid, &status, 0) == pid && status == 0);
        check(time(NULL) < end);
    }
    check(pthread_join(thread, NULL) == 0);
    return ok();
}
