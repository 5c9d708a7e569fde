"""Becomes a process that cannot be carried, in the way that its argument names; says "ready", or "missing" where the kernel cannot do it."""
import ctypes, fcntl, os, select, signal, socket, struct, sys, tempfile, threading, time, mmap

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = libc.mmap.restype = ctypes.c_long
libc.mmap.argtypes = [ctypes.c_long, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
kept = []


def call(number, *args):
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    if result < 0:
        print("missing", flush=True)
        time.sleep(60)
    return result


def shared_with_another():
    memory = mmap.mmap(-1, 4096)
    pid = os.getpid()
    if os.fork() == 0:
        if os.fork() == 0:
            while os.path.exists(f"/proc/{pid}"):
                time.sleep(0.1)
        os._exit(0)
    os.wait()
    kept.append(memory)


def linked_elsewhere():
    directory = tempfile.mkdtemp()
    kept.append(os.open(directory + "/one", os.O_CREAT | os.O_RDWR))
    os.link(directory + "/one", directory + "/other")
    os.unlink(directory + "/one")


def descriptors_on_their_way():
    one, other = socket.socketpair()
    socket.send_fds(one, [b"x"], [0])
    kept.extend([one, other])


def listening():
    server = socket.socket(socket.AF_UNIX)
    server.bind("\0shoal-uncarried-%d" % os.getpid())
    server.listen()
    kept.append(server)


def network(family, kind, listens=False):
    def make():
        one = socket.socket(family, kind)
        one.bind(("127.0.0.1", 0))
        if listens:
            one.listen()
        kept.append(one)

    return make


def message_queue(deleted):
    def make():
        name = ctypes.create_string_buffer(b"shoal-uncarried-%d" % os.getpid())
        call(240, name, os.O_RDWR | os.O_CREAT, 0o600, 0)
        if deleted:
            call(241, name)
        else:
            # Nobody else needs its name, which outlives the process: the runner ends it by SIGKILL.
            other = os.fork()
            if other == 0:
                os.closerange(0, 100)
                parent = os.getppid()
                while os.getppid() == parent:
                    time.sleep(0.05)
                call(241, name)
                os._exit(0)

    return make


def symbolic_link():
    directory = tempfile.mkdtemp()
    os.symlink("/etc/passwd", directory + "/link")
    kept.append(os.open(directory + "/link", os.O_PATH | os.O_NOFOLLOW))


def deleted_directory():
    directory = tempfile.mkdtemp()
    kept.append(os.open(directory, os.O_RDONLY))
    os.rmdir(directory)


def first_thread_ends():
    def goes_on():
        while ") Z " not in open(f"/proc/{os.getpid()}/stat").read():
            time.sleep(0.01)
        print("ready", flush=True)
        time.sleep(60)

    threading.Thread(target=goes_on).start()
    call(60, 0)


def unread_events():
    directory = tempfile.mkdtemp()
    fd = libc.inotify_init1(0)
    libc.inotify_add_watch(fd, directory.encode(), 0xFFF)
    os.rmdir(directory)


def owner():
    one, other = socket.socketpair()
    fcntl.fcntl(one, fcntl.F_SETOWN, 1)
    kept.extend([one, other])


def watches_another_file():
    ends, others = os.pipe(), os.pipe()
    epoll = select.epoll()
    epoll.register(ends[0])
    kept.extend([ends, others, epoll, os.dup(ends[0])])
    os.dup2(others[0], ends[0])


def no_directory():
    directory = tempfile.mkdtemp()
    os.chdir(directory)
    os.rmdir(directory)


def far_down():
    """In a directory to which no single path leads."""
    os.chdir(tempfile.mkdtemp())
    for _ in range(25):
        os.mkdir("d" * 200)
        os.chdir("d" * 200)


def has_open_far_down():
    far_down()
    kept.append(os.open("file", os.O_CREAT | os.O_RDWR))
    os.chdir("/")


def has_mapped_far_down():
    far_down()
    fd = os.open("file", os.O_CREAT | os.O_RDWR)
    os.ftruncate(fd, 4096)
    kept.append(mmap.mmap(fd, 4096, mmap.MAP_PRIVATE))
    # A mapping of Python's has a descriptor of its own.
    os.closerange(3, 100)
    os.chdir("/")


PTRACE_SEIZE, EXIT_KILL = 0x4206, 0x100000


def traces_another():
    pid = os.fork()
    if pid == 0:
        time.sleep(60)
    call(101, PTRACE_SEIZE, pid, 0, EXIT_KILL)


def has_a_traced_thread():
    threading.Thread(target=time.sleep, args=(60,)).start()
    pid = os.getpid()
    other = next(tid for tid in map(int, os.listdir("/proc/self/task")) if tid != pid)
    done = os.pipe()
    if os.fork() == 0:
        call(101, PTRACE_SEIZE, other, 0, 0)
        os.write(done[1], b"x")
        # It is not waited for as long as the thread is traced.
        while ") Z " not in open(f"/proc/{pid}/stat").read():
            time.sleep(0.1)
        os._exit(0)
    os.read(done[0], 1)


def dispatches_its_calls():
    kept.append(ctypes.create_string_buffer(8))
    call(157, 59, 1, 0, 0, kept[-1])


def has_segments():
    call(154, 1, struct.pack("IIII", 0, 0, 0xFFFFF, 0x51), 16)


def beside(does, ends=lambda: None):
    """Another process does something at once, and something else when this one has ended."""
    pid, done = os.getpid(), os.pipe()
    if os.fork() == 0:
        if os.fork() == 0:
            does()
            os.write(done[1], b"x")
            while os.path.exists(f"/proc/{pid}"):
                time.sleep(0.1)
            ends()
        os._exit(0)
    os.wait()
    os.read(done[0], 1)


def semaphore(flags=0, others=lambda made: None):
    made = call(64, 0, 1, 0o600)
    up = lambda how: call(65, made, struct.pack("hhh", 0, 1, how), 1)
    up(flags)
    beside(lambda: others(up), lambda: call(66, made, 0, 0))


def queue():
    made = call(68, 0, 0o600)
    beside(lambda: None, lambda: call(71, made, 0, 0))
    return made


def waits_for_a_message():
    made = queue()
    threading.Thread(target=lambda: call(70, made, ctypes.create_string_buffer(16), 8, 0, 0)).start()
    while not any(open(f"/proc/self/task/{tid}/syscall").read().startswith("70 ") for tid in os.listdir("/proc/self/task")):
        time.sleep(0.01)


def map_it(flags, fd=-1):
    at = libc.mmap(0, 2 << 20, 3, flags, fd, 0)
    if at < 0:
        call(-1)
    return at


def pool_file():
    fd = call(319, ctypes.create_string_buffer(b"pool"), 4)
    os.ftruncate(fd, 2 << 20)
    kept.append(fd)
    return fd


ways = {
    "io_uring": lambda: call(425, 4, ctypes.create_string_buffer(200)),
    "userfaultfd": lambda: call(323, 0),
    "perf": lambda: call(298, struct.pack("IIQQQQQ", 1, 112, 9, 0, 0, 0, 0) + bytes(64), 0, -1, -1, 0),
    "fanotify": lambda: call(300, 0, 0),
    "aio": lambda: call(206, 10, ctypes.create_string_buffer(8)),
    "itself": lambda: kept.append(open("/proc/self/status")),
    "sealed": lambda: call(462, map_it(0x22), 2 << 20, 0),
    # A memory file of huge pages (MFD_HUGETLB) that is mapped privately, and of which no page is used.
    "hugetlb": lambda: map_it(0x4002, pool_file()),
    "secret": lambda: kept.append(os.ftruncate(call(447, 0), 4096)),
    "shared": shared_with_another,
    "linked": linked_elsewhere,
    "in flight": descriptors_on_their_way,
    "listening": listening,
    "TCP server": network(socket.AF_INET, socket.SOCK_STREAM, True),
    "TCP": network(socket.AF_INET, socket.SOCK_STREAM),
    "UDP": network(socket.AF_INET, socket.SOCK_DGRAM),
    "message queue": message_queue(False),
    "deleted queue": message_queue(True),
    "symbolic link": symbolic_link,
    "deleted directory": deleted_directory,
    "first thread": first_thread_ends,
    "events": unread_events,
    "owner": owner,
    "watched": watches_another_file,
    "deadline": lambda: call(314, 0, struct.pack("IIQiIQQQ", 48, 6, 0, 0, 0, 1000000, 10000000, 10000000), 0),
    "directory": no_directory,
    "long path": has_open_far_down,
    "long directory": far_down,
    "long mapping": has_mapped_far_down,
    "children's time": lambda: call(272, 0x80),
    "tracer": traces_another,
    "traced thread": has_a_traced_thread,
    "semaphore": semaphore,
    # Another process was the last to use it.
    "undo": lambda: semaphore(0x1000, lambda up: up(0)),
    "queue": lambda: call(69, queue(), struct.pack("q", 1), 0, 0),
    "waiting for a message": waits_for_a_message,
    "dispatch": dispatches_its_calls,
    "segments": has_segments,
    "nothing": lambda: None,
}
ways[sys.argv[1]]()
print("ready", flush=True)
time.sleep(60)
