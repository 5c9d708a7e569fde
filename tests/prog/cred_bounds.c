/* What a process has given up for good its children have not got back: the bounding set, inheritable capabilities, no_new_privs. */
#include "prog.h"
#include <linux/capability.h>

enum { GONE = CAP_NET_RAW, KEPT = CAP_SYS_NICE };

static struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
static struct __user_cap_data_struct caps[2];

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (geteuid() != 0)
        return ok();
    if (role("bounded")) {
        check(prctl(PR_CAPBSET_READ, GONE) == 0 && prctl(PR_CAPBSET_READ, KEPT) == 1);
        check(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == atoi(arg(1)));
        check(syscall(SYS_capget, &head, caps) == 0);
        check(caps[0].inheritable == 1u << KEPT && caps[1].inheritable == 0);
        check(!(caps[0].permitted & 1u << GONE) && caps[0].effective & 1u << KEPT);
        return 0;
    }
    check(prctl(PR_CAPBSET_DROP, GONE) == 0);
    check(syscall(SYS_capget, &head, caps) == 0);
    caps[0].inheritable = 1u << KEPT;
    check(syscall(SYS_capset, &head, caps) == 0);
    check(exited(wait_status(spawn_child("bounded", "0")), 0));
    check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    check(exited(wait_status(spawn_child("bounded", "1")), 0));
    return ok();
}
