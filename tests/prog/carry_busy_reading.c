/* A journey while a thread reads, again and again and in little parts, what the kernel tells of the process; and with a file of that kind that was left after a part of it. */
#include "smaps.h"

static volatile int enough;
static volatile unsigned long rounds;

static void *read_on(void *text)
{
    while (!enough) {
        read_smaps(text, 500, 10);
        rounds++;
        usleep(500);
    }
    return text;
}

int main(int argc, char **argv)
{
    static char text[1 << 20];
    begin_carried(argc, argv);
    for (int journey = 0; journey < 3; journey++) {
        char some[16];
        pthread_t reader;
        int left = open("/proc/version", O_RDONLY);
        check(left >= 0 && read(left, some, 5) == 5 && memcmp(some, "Linux", 5) == 0);
        enough = 0;
        check(pthread_create(&reader, NULL, read_on, text) == 0);
        phase();
        unsigned long then = rounds;
        until(rounds > then + 100); /* it goes on */
        enough = 1;
        check(pthread_join(reader, NULL) == 0);
        check(read(left, some, 9) == 9 && memcmp(some, " version ", 9) == 0 && close(left) == 0);
    }
    return ok();
}
