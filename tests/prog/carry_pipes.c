/* Pipes within the process keep what is in them, packets too, their size and their flags; a thread that reads one goes on reading. */
#include "prog.h"

static int through[2];

static void *reader(void *arg)
{
    check(read(through[0], arg, 5) == 5);
    return arg;
}

int main(int argc, char **argv)
{
    int full[2], half[2], packets[2];
    char text[100] = "", got[8] = "", big[60000];
    begin_carried(argc, argv);
    check(pipe(full) == 0 && pipe2(half, O_NONBLOCK | O_CLOEXEC) == 0 && pipe(through) == 0);
    check(fcntl(full[0], F_SETPIPE_SZ, 1 << 17) == 1 << 17);
    memset(big, 'b', sizeof big);
    check(write(full[1], "first", 5) == 5 && write(full[1], big, sizeof big) == sizeof big);
    check(write(half[1], "last", 4) == 4 && close(half[1]) == 0); /* only the reading end is left */
    check(pipe2(packets, O_DIRECT | O_NONBLOCK) == 0 && write(packets[1], "one", 3) == 3 && write(packets[1], "another", 7) == 7);
    int again = dup(full[1]);
    pthread_t thread;
    check(again >= 0 && pthread_create(&thread, NULL, reader, got) == 0);

    phase();

    check(fcntl(full[1], F_GETPIPE_SZ) == 1 << 17);
    check(read(full[0], text, 5) == 5 && memcmp(text, "first", 5) == 0);
    for (size_t done = 0; done < sizeof big;) {
        char some[1000];
        ssize_t n = read(full[0], some, sizeof some);
        check(n > 0 && some[0] == 'b' && some[n - 1] == 'b');
        done += (size_t)n;
    }
    check(write(again, "more", 4) == 4 && read(full[0], text, 100) == 4);
    check(fcntl(half[0], F_GETFL) & O_NONBLOCK && fcntl(half[0], F_GETFD) == FD_CLOEXEC);
    check(read(half[0], text, 100) == 4 && read(half[0], text, 100) == 0);
    check(fcntl(packets[1], F_GETFL) & O_DIRECT && read(packets[0], text, 100) == 3 && memcmp(text, "one", 3) == 0);
    check(read(packets[0], text, 100) == 7 && memcmp(text, "another", 7) == 0 && read(packets[0], text, 100) == -1);
    check(write(through[1], "hello", 5) == 5 && pthread_join(thread, NULL) == 0 && memcmp(got, "hello", 5) == 0);
    return ok();
}
