/* The environment arrives as it is: order of meaning, empty values, odd bytes, removed names, entries that are no NAME=value. */
#include "prog.h"

static const char *odd[] = {"PROG_BARE", "=PROG_NAMELESS", "", "PROG_TWICE=1", "PROG_TWICE=2"};
enum { ODD = sizeof odd / sizeof *odd };

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        check(getenv("PROG_PLAIN") && strcmp(getenv("PROG_PLAIN"), "value") == 0);
        check(getenv("PROG_EMPTY") && strcmp(getenv("PROG_EMPTY"), "") == 0);
        check(getenv("PROG_ODD") && strcmp(getenv("PROG_ODD"), "a=b\n\xff c") == 0);
        check(!getenv("PROG_GONE"));
        char **entry = environ;
        while (*entry && strcmp(*entry, odd[0]) != 0)
            entry++;
        for (int i = 0; i < ODD; i++)
            check(entry[i] && strcmp(entry[i], odd[i]) == 0);
        return 0;
    }
    check(setenv("PROG_GONE", "1", 1) == 0 && unsetenv("PROG_GONE") == 0);
    check(setenv("PROG_PLAIN", "value", 1) == 0 && setenv("PROG_EMPTY", "", 1) == 0);
    check(setenv("PROG_ODD", "a=b\n\xff c", 1) == 0);
    static char *entries[1000];
    int count = 0;
    for (; environ[count] && count < 900; count++)
        entries[count] = environ[count];
    for (int i = 0; i < ODD; i++)
        entries[count++] = (char *)odd[i];
    environ = entries;
    check(exited(wait_status(spawn_child("child")), 0));
    return ok();
}
