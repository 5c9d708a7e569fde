/* CPU time of a waited-for child: wait4's rusage, getrusage(RUSAGE_CHILDREN) and times. */
#include "prog.h"

static double seconds(struct rusage *u)
{
    return (double)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) + (double)(u->ru_utime.tv_usec + u->ru_stime.tv_usec) / 1e6;
}

int main(int argc, char **argv)
{
    struct rusage before, after, mine;
    struct tms t0, t1;
    int status;
    begin(argc, argv);
    if (role("child")) {
        do
            check(getrusage(RUSAGE_SELF, &mine) == 0);
        while (seconds(&mine) < 0.2);
        return 0;
    }
    check(getrusage(RUSAGE_CHILDREN, &before) == 0 && times(&t0) != (clock_t)-1);
    pid_t child = spawn_child("child");
    check(wait4(child, &status, 0, &mine) == child && exited(status, 0));
    check(getrusage(RUSAGE_CHILDREN, &after) == 0 && times(&t1) != (clock_t)-1);
    check(seconds(&mine) >= 0.2);
    check(seconds(&after) - seconds(&before) >= 0.2);
    clock_t ticks = t1.tms_cutime + t1.tms_cstime - t0.tms_cutime - t0.tms_cstime;
    check(ticks >= sysconf(_SC_CLK_TCK) / 5 - 2);
    return ok();
}
