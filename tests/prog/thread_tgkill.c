/* tgkill reaches the one thread that is named, also of a process elsewhere; a wrong group or a gone thread is ESRCH. */
#include "prog.h"

static volatile pid_t got;
static pid_t tid[2];
static int ready[2];

static void on_usr1(int sig)
{
    (void)sig;
    got = gettid();
}

static void *body(void *arg)
{
    int me = (int)(intptr_t)arg;
    tid[me] = gettid();
    say(ready[1], 'r');
    until(got == tid[me] || got == -1);
    return NULL;
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        block(SIGUSR2);
        say(1, 'r');
        siginfo_t info;
        sigset_t set = set_of(SIGUSR2);
        /* Not sigwaitinfo: glibc makes SI_USER of the code. */
        check(syscall(SYS_rt_sigtimedwait, &set, &info, NULL, NSIG / 8) == SIGUSR2);
        check(info.si_code == SI_TKILL && info.si_pid == getppid() && info.si_uid == getuid());
        return 43;
    }
    pthread_t thread[2];
    check(pipe(ready) == 0 && signal(SIGUSR1, on_usr1) != SIG_ERR);
    for (intptr_t i = 0; i < 2; i++)
        check(pthread_create(&thread[i], NULL, body, (void *)i) == 0);
    hear(ready[0]);
    hear(ready[0]);
    check(syscall(SYS_tgkill, getpid(), tid[1], SIGUSR1) == 0);
    check(pthread_join(thread[1], NULL) == 0 && got == tid[1]);
    got = -1;
    check(pthread_join(thread[0], NULL) == 0);
    check(syscall(SYS_tgkill, getppid(), tid[0], 0) == -1 && errno == ESRCH);
    until(syscall(SYS_tgkill, getpid(), tid[0], 0) == -1 && errno == ESRCH);
    check(syscall(SYS_tgkill, 0, tid[0], 0) == -1 && errno == EINVAL);
    struct piped child = spawn_piped("child");
    check(hear(child.out) == 'r' && syscall(SYS_tgkill, getpid(), child.pid, SIGUSR2) == -1 && errno == ESRCH);
    check(syscall(SYS_tgkill, child.pid, child.pid, SIGUSR2) == 0 && exited(wait_status(child.pid), 43));
    return ok();
}
