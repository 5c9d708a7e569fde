# fork, wait, pipes, signals with handlers, alarm, backticks.
use strict; use warnings; use POSIX ":sys_wait_h"; $| = 1;
print "backticks: ", `echo text; exit 6`, "status ", $? >> 8, "\n";
pipe(my $r, my $w) or die;
my %code;
for my $n (1 .. 10) {
    my $pid = fork // die;
    if (!$pid) { print $w "from $n\n"; close $w; exit $n }
    $code{$pid} = $n;
}
close $w;
print "lines: ", scalar(my @lines = <$r>), "\n";
while ((my $pid = wait) > 0) { die "status of $pid: $?" unless $? >> 8 == $code{$pid}; delete $code{$pid} }
print "left: ", scalar(keys %code), "\n";
my $got = 0;
$SIG{USR1} = sub { $got++ };
kill USR1 => $$ for 1 .. 3;
print "signals: $got\n";
my $pid = fork // die;
if (!$pid) { exec "sleep", "1000" }
print "running: ", waitpid($pid, WNOHANG), "\n";
kill KILL => $pid; waitpid $pid, 0; print "signal: ", $? & 127, "\n";
open(my $sort, "|-", "sort -n | tail -2") or die; print $sort "$_\n" for reverse 1 .. 500; close $sort;
eval { local $SIG{ALRM} = sub { die "alarm\n" }; alarm 1; 1 while 1; }; print "eval: $@";
exit 8;
