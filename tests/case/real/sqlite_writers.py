# sqlite_writers.py FILE [ROUNDS]: without ROUNDS makes the table, or says how many rows there are, each once; with it adds a row so often.
import os, sqlite3, sys, time
file, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0
base = sqlite3.connect(file, timeout=30, isolation_level=None)
base.execute("create table if not exists t (who integer, n integer, unique (who, n))")
for n in range(rounds):
    base.execute("begin immediate")
    base.execute("insert into t values (?, ?)", (os.getpid(), n))
    time.sleep(0.002)
    base.execute("commit")
    time.sleep(0.002)
if not rounds:
    print(base.execute("pragma integrity_check").fetchone()[0], base.execute("select count(*) from t").fetchone()[0])
