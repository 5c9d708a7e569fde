/* Resource limits, soft and hard, go to a child elsewhere. */
#include "prog.h"

static const struct {
    int resource;
    struct rlimit lim;
} given[] = {
    {RLIMIT_NOFILE, {200, 300}}, {RLIMIT_CORE, {0, 4096}},       {RLIMIT_STACK, {1 << 22, 1 << 23}},
    {RLIMIT_FSIZE, {1 << 20, 1 << 21}}, {RLIMIT_CPU, {1000, 2000}}, {RLIMIT_DATA, {1 << 30, 1L << 31}},
};

int main(int argc, char **argv)
{
    struct rlimit lim;
    begin(argc, argv);
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        if (role("child"))
            check(getrlimit(given[i].resource, &lim) == 0 && lim.rlim_cur == given[i].lim.rlim_cur &&
                  (lim.rlim_max == given[i].lim.rlim_max || given[i].resource == RLIMIT_CORE));
        else if (setrlimit(given[i].resource, &given[i].lim) == -1) {
            check(errno == EPERM && given[i].resource == RLIMIT_CORE); /* its hard limit may be 0 already */
            struct rlimit none = {0, 0};
            check(setrlimit(RLIMIT_CORE, &none) == 0);
        }
    }
    if (role("child"))
        return 0;
    check(exited(wait_status(spawn_child("child")), 0));
    return ok();
}
