/* Large arguments: one of 128 KiB less a page, and 60 of 10,000 bytes. */
#include "prog.h"

enum { ONE = 126976, MANY = 10000, COUNT = 60 };

static const char *filled(int len, char byte)
{
    char *s = malloc((size_t)len + 1);
    check(s);
    memset(s, byte, (size_t)len);
    s[len] = 0;
    return s;
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        check(strcmp(arg(1), filled(ONE, 'x')) == 0);
        for (int i = 0; i < COUNT; i++)
            check(strcmp(arg(i + 2), filled(MANY, (char)('!' + i))) == 0);
        return argc == COUNT + 3 ? 0 : 1;
    }
    const char *args[COUNT + 3] = {"child", filled(ONE, 'x')};
    for (int i = 0; i < COUNT; i++)
        args[i + 2] = filled(MANY, (char)('!' + i));
    check(exited(wait_status(spawn_args(args)), 0));
    return ok();
}
