/* Thousands of descriptors of one inode: each open file stays one, with those that are duplicates of it and no others. */
#include "prog.h"
#include <sys/eventfd.h>

enum { MANY = 1500 };

int main(int argc, char **argv)
{
    begin_carried(argc, argv);
    struct rlimit limit;
    check(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = limit.rlim_max;
    check(limit.rlim_max > 4 * MANY + 100 && setrlimit(RLIMIT_NOFILE, &limit) == 0);
    int counters[MANY], twins[MANY], files[MANY], ends[2 * 100];
    for (int i = 0; i < MANY; i++) {
        check((counters[i] = eventfd(i, EFD_NONBLOCK)) >= 0);
        check((files[i] = open("/etc/passwd", O_RDONLY)) >= 0);
        check(lseek(files[i], i % 50, SEEK_SET) == i % 50);
    }
    for (int i = 0; i < MANY; i++)
        check((twins[i] = dup(counters[MANY - 1 - i])) >= 0);
    for (int i = 0; i < 100; i++)
        check(pipe(ends + 2 * i) == 0 && write(ends[2 * i + 1], &i, sizeof i) == sizeof i);

    phase();

    for (int i = 0; i < MANY; i++) {
        uint64_t count;
        check(lseek(files[i], 0, SEEK_CUR) == i % 50);
        if (i) /* a counter of 0 has nothing to read */
            check(read(twins[MANY - 1 - i], &count, sizeof count) == sizeof count && count == (uint64_t)i);
        check(read(counters[i], &count, sizeof count) == -1 && errno == EAGAIN);
    }
    for (int i = 0; i < 100; i++) {
        int value;
        check(read(ends[2 * i], &value, sizeof value) == sizeof value && value == i);
    }
    return ok();
}
