/* Arguments arrive as they are: empty ones, blanks, newlines, quotes, bytes that are not UTF-8. */
#include "prog.h"

static const char *const list[] = {"", " ", "a b", "--", "-n", "\n", "'\"\\$x`", "\xff\xfe\x01", "", NULL};

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        for (int i = 0; list[i]; i++)
            check(strcmp(arg(i + 1), list[i]) == 0);
        return argc == 11 ? 0 : 1;
    }
    pid_t child = spawn_child("child", list[0], list[1], list[2], list[3], list[4], list[5], list[6], list[7], list[8]);
    check(exited(wait_status(child), 0));
    return ok();
}
