/* Its child has its memory for as many milliseconds as the first argument says, then executes a program (vfork(2)). */
#include <poll.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char **words)
{
    if (count != 2)
        return 2;
    pid_t child = vfork();
    if (child == 0) {
        poll(NULL, 0, atoi(words[1]));
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    int status = -1;
    if (waitpid(child, &status, 0) != child || status != 0)
        return 1;
    for (;;)
        pause();
}
