/* A journey while a thread goes from one working directory to another without end. */
#include "prog.h"
#include <limits.h>

static const char *const PLACES[] = {"/usr", "/usr/lib", "/"};
static volatile int enough;
static volatile unsigned long steps;

static void *go_on(void *unused)
{
    char at[PATH_MAX];
    while (!enough) {
        const char *place = PLACES[steps++ % 3];
        check(chdir(place) == 0);
        check(getcwd(at, sizeof at) && strcmp(at, place) == 0);
    }
    return unused;
}

int main(int argc, char **argv)
{
    begin_carried(argc, argv);
    for (int journey = 0; journey < 3; journey++) {
        pthread_t goer;
        enough = 0;
        check(pthread_create(&goer, NULL, go_on, NULL) == 0);
        phase();
        unsigned long then = steps;
        until(steps > then + 100); /* it goes on */
        enough = 1;
        check(pthread_join(goer, NULL) == 0);
    }
    return ok();
}
