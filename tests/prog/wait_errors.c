/* wait without a child is ECHILD, also for a process that is not ours; wrong flags are EINVAL. */
#include "prog.h"

int main(int argc, char **argv)
{
    siginfo_t info;
    begin(argc, argv);
    check(wait(NULL) == -1 && errno == ECHILD);
    check(waitpid(getppid(), NULL, 0) == -1 && errno == ECHILD);
    check(waitpid(getpid(), NULL, 0) == -1 && errno == ECHILD);
    check(waitpid(-getpgrp(), NULL, 0) == -1 && errno == ECHILD);
    check(waitid(P_ALL, 0, &info, WEXITED) == -1 && errno == ECHILD);
    check(waitid(P_ALL, 0, &info, 0) == -1 && errno == EINVAL);
    check(waitpid(-1, NULL, 0x7fff0000) == -1 && errno == EINVAL);
    check(waitid((idtype_t)77, 0, &info, WEXITED) == -1 && errno == EINVAL);
    return ok();
}
