/* 300 questions and answers of one byte: nothing waits for a buffer to fill. */
#include "prog.h"

int main(int argc, char **argv)
{
    begin(argc, argv);
    if (role("child")) {
        for (int byte = hear(0); byte != -1; byte = hear(0))
            say(1, (char)(byte + 1));
        return 0;
    }
    struct piped child = spawn_piped("child");
    for (int i = 0; i < 300; i++) {
        say(child.in, (char)i);
        check(hear(child.out) == (unsigned char)(i + 1));
    }
    close(child.in);
    check(exited(wait_status(child.pid), 0));
    return ok();
}
