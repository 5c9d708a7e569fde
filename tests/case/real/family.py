# subprocess, multiprocessing (pool, queue, shared memory), signals, process groups, fork and wait.
import multiprocessing as mp, os, signal, subprocess, sys, threading


def square(n):
    return n * n


def put(queue, lock, total, n):
    with lock:
        total.value += n
    queue.put(n)


def main():
    print(subprocess.run(["sh", "-c", "echo out; exit 3"], stdout=subprocess.PIPE))
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as cat:
        print(len(cat.communicate(b"x" * 300000)[0]), cat.returncode)
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    print(os.getpgid(child.pid) == child.pid, os.getsid(child.pid) == child.pid, child.poll())
    os.killpg(child.pid, signal.SIGTERM)
    print(child.wait())
    try:
        subprocess.run(["sleep", "1000"], timeout=0.2)
    except subprocess.TimeoutExpired:
        print("timeout")
    with mp.Pool(4) as pool:
        print(sum(pool.map(square, range(1000))))
    queue, lock, total = mp.Queue(), mp.Lock(), mp.Value("i", 0)
    workers = [mp.Process(target=put, args=(queue, lock, total, n)) for n in range(8)]
    [w.start() for w in workers]
    got = sorted(queue.get() for _ in workers)
    [w.join() for w in workers]
    print(got, total.value, [w.exitcode for w in workers])
    got = []
    signal.signal(signal.SIGUSR1, lambda s, f: got.append(s))
    pid = os.fork()
    if pid == 0:
        os.kill(os.getppid(), signal.SIGUSR1)
        os._exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), got)
    threads = [threading.Thread(target=subprocess.run, args=(["true"],)) for _ in range(10)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    print(signal.sigtimedwait([signal.SIGUSR2], 0), flush=True)
    sys.exit(4)


if __name__ == "__main__":
    main()
