# Pipelines, substitutions, traps, subshells, here-documents, background jobs and their statuses.
set -u
seq 1 200 | grep 7 | sort -rn | head -5 | tr '\n' ' '
echo
echo "nested: $(echo a; (echo b; (echo c; exit 3); echo "$?"))"
set -o pipefail
true | false | true; echo "pipefail: $?"
( exit 42 ) & wait $!; echo "background: $?"
sleep 1000 & kill -TERM $!; wait $! 2>/dev/null; echo "killed: $?"
for i in 1 2 3 4 5; do ( exit "$i" ) & pids[i]=$!; done
for i in 5 3 1 2 4; do wait "${pids[i]}"; echo "job $i: $?"; done
trap 'echo "trap usr1"' USR1
kill -USR1 $$
( trap 'echo inner term; exit 9' TERM; kill -TERM $BASHPID; : ); echo "subshell: $?"
diff <(seq 5) <(seq 1 6); echo "diff: $?"
coproc cat; echo through >&"${COPROC[1]}"; read -r line <&"${COPROC[0]}"; echo "coproc: $line"
kill "$COPROC_PID"
set -m
( sleep 1000 ) & job=$!
kill -STOP $job; until jobs -s | grep -q sleep; do sleep 0.05; done; echo "stopped: $(jobs -s | wc -l)"
kill -CONT $job; until jobs -r | grep -q sleep; do sleep 0.05; done; kill -TERM $job; wait $job 2>/dev/null; echo "ended: $?"
timeout 0.2 sleep 1000; echo "timeout: $?"
find /usr/bin -maxdepth 1 -name 'b*sh' -print0 | xargs -0 -P 4 -n 1 basename | sort | head -1
trap 'echo bye' EXIT
exit 5
