/* The environment arrives as it is: order of meaning, empty values, odd bytes, removed names. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        check(getenv("PROG_PLAIN") && strcmp(getenv("PROG_PLAIN"), "value") == 0);
        check(getenv("PROG_EMPTY") && strcmp(getenv("PROG_EMPTY"), "") == 0);
        check(getenv("PROG_ODD") && strcmp(getenv("PROG_ODD"), "a=b\n\xff c") == 0);
        check(!getenv("PROG_GONE"));
        return 0;
    }
    check(setenv("PROG_GONE", "1", 1) == 0 && unsetenv("PROG_GONE") == 0);
    check(setenv("PROG_PLAIN", "value", 1) == 0 && setenv("PROG_EMPTY", "", 1) == 0);
    check(setenv("PROG_ODD", "a=b\n\xff c", 1) == 0);
    check(exited(wait_status(spawn_child("child")), 0));
    return ok();
}
