# waits.py LOG COMMAND...: runs the command as its child, puts the child's number into LOG.pid and writes into LOG what wait tells of it.
import os, sys

log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)


def say(text):
    os.write(log, (text + "\n").encode())


pid = os.fork()
if not pid:
    os.execvp(sys.argv[2], sys.argv[2:])
with open(sys.argv[1] + ".pid", "w") as file:
    file.write(str(pid))
while True:
    _, status = os.waitpid(pid, os.WUNTRACED | os.WCONTINUED)
    if os.WIFSTOPPED(status):
        say(f"stopped {os.WSTOPSIG(status)}")
    elif os.WIFCONTINUED(status):
        say("continued")
    else:
        say(f"exited {os.WEXITSTATUS(status)}" if os.WIFEXITED(status) else f"killed {os.WTERMSIG(status)}")
        break
