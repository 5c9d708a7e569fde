"""Becomes another as often as its file of wishes, NAME.wish, wants it: "N executes", "N renames" (another file takes the place of its log), "N maps".
At "N ends" it writes to its log, and ends.

A file and no signal, since signals wait while a process is on its way. What it has done it counts in NAME.done; its log, NAME, is always the same
descriptor."""

import mmap
import os
import sys
import time

LOG = 5
name, done = sys.argv[1], int(sys.argv[2])
memory = []


def has(count):
    with open(name + ".done", "w") as told:
        told.write(str(count))


def executes():
    os.execv(sys.executable, [sys.executable, __file__, name, str(done + 1)])


def opened():
    log = os.open(name, os.O_WRONLY | os.O_CREAT, 0o600)
    if log != LOG:
        os.dup2(log, LOG)
        os.close(log)
    os.set_inheritable(LOG, True)
    os.write(LOG, b"begins\n")


def renames():
    global done
    os.rename(name, "%s.%d" % (name, done))
    opened()
    done += 1
    has(done)


def maps():
    global done
    memory.append(mmap.mmap(-1, 1 << 20))
    memory[-1].write(b"x" * (1 << 20))
    done += 1
    has(done)


def ends():
    good = all(one[:] == b"x" * (1 << 20) for one in memory)
    os.write(LOG, b"ends\n" if good else b"memory is not what it was\n")
    sys.exit(0)


def wish():
    try:
        with open(name + ".wish") as wishes:
            number, what = wishes.read().split()
    except (FileNotFoundError, ValueError):
        return None
    return what if int(number) > done else None


if done == 0:
    opened()
has(done)
while True:
    what = wish()
    if what:
        {"executes": executes, "renames": renames, "maps": maps, "ends": ends}[what]()
    time.sleep(0.005)
