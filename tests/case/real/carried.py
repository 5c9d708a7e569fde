# Threads that compute, a database that is written and locked, a sleep: whoever carries this away and back changes nothing of it.
import hashlib, os, sqlite3, sys, threading, time

results = []


def compute(rounds):
    digest = hashlib.sha256()
    for i in range(rounds):
        digest.update(str(i).encode())
    results.append(digest.hexdigest())


threads = [threading.Thread(target=compute, args=(300000,)) for _ in range(3)]
[t.start() for t in threads]
[t.join() for t in threads]
path = sys.argv[1]
database = sqlite3.connect(path)
database.execute("create table numbers(a integer, b text)")
for i in range(200):
    database.execute("insert into numbers values(?, ?)", (i, str(i) * 10))
    database.commit()
before = time.monotonic()
time.sleep(1)
assert 1 <= time.monotonic() - before < 10
print(len(set(results)), results[0][:16], *database.execute("select count(*), sum(a), sum(length(b)) from numbers").fetchone())
print(database.execute("pragma integrity_check").fetchone()[0], flush=True)
database.close()
os.unlink(path)
