/* posix_spawn with file actions, group, mask and default signals. */
#include "prog.h"

extern char **environ;

static int child(void)
{
    sigset_t mask;
    struct sigaction act;
    check(getpgrp() == getpid());
    check(sigprocmask(SIG_BLOCK, NULL, &mask) == 0 && sigismember(&mask, SIGUSR2));
    check(sigaction(SIGUSR1, NULL, &act) == 0 && act.sa_handler == SIG_DFL);
    say(1, 'r');
    return 11;
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child"))
        return child();
    int out[2];
    pid_t pid;
    posix_spawn_file_actions_t acts;
    posix_spawnattr_t attr;
    sigset_t mask = set_of(SIGUSR2), dfl = set_of(SIGUSR1);
    check(pipe(out) == 0 && signal(SIGUSR1, SIG_IGN) != SIG_ERR);
    check(posix_spawn_file_actions_init(&acts) == 0 && posix_spawnattr_init(&attr) == 0);
    check(posix_spawn_file_actions_adddup2(&acts, out[1], 1) == 0);
    check(posix_spawnattr_setsigmask(&attr, &mask) == 0 && posix_spawnattr_setsigdefault(&attr, &dfl) == 0);
    check(posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF) == 0);
    char *args[] = {"spawn_posix", "child", NULL};
    check(posix_spawn(&pid, "/proc/self/exe", &acts, &attr, args, environ) == 0);
    check(hear(out[0]) == 'r');
    check(exited(wait_status(pid), 11));
    check(posix_spawn(&pid, "/nonexistent", NULL, NULL, args, environ) == ENOENT);
    return ok();
}
