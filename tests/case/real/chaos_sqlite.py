"""Writes a database for some seconds in transactions and checks it: every sum is what was written.

Between two transactions it holds no lock for some milliseconds, as a program does that has to come by what it writes: a process that holds one is not moved.
"""
import sqlite3
import sys
import time

path, seconds = sys.argv[1], float(sys.argv[2])
db = sqlite3.connect(path)
db.execute("create table t (n integer primary key, text, sum integer)")
until, n, total = time.monotonic() + seconds, 0, 0
while time.monotonic() < until:
    with db:
        for _ in range(20):
            n += 1
            total += n * 7 % 1009
            db.execute("insert into t values (?, ?, ?)", (n, "x" * (n % 97), n * 7 % 1009))
    time.sleep(0.02)
    if n % 1000 == 0:
        with db:
            db.execute("delete from t where n % 3 = 0 and n < ?", (n - 500,))
            db.execute("insert into t select n, text, sum from (select n, 'again' as text, n * 7 % 1009 as sum from "
                       "(with recursive c(n) as (select 1 union all select n + 1 from c where n < ?) select n from c)) "
                       "where n not in (select n from t)", (n,))
rows, found = db.execute("select count(*), sum(sum) from t").fetchone()
check = db.execute("pragma integrity_check").fetchone()[0]
print("well" if (rows, found, check) == (n, total, "ok") and n > 0 else (rows, n, found, total, check))
