//! Job control of an interactive bash on the front end, with jobs on nodes. Where a text is to be awaited that is also
//! typed, it is typed with quotes in it (`u''p`), so that the echo is not taken for the answer.

use super::scene::{same, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::proto::Step;
use crate::lab::Res;

pub(crate) const SCENES: &[Scene] = &[
    ("job_ctrl_c", job_ctrl_c),
    ("job_ctrl_z", job_ctrl_z),
    ("job_kill", job_kill),
    ("job_tty_input", job_tty_input),
    ("job_tty_output", job_tty_output),
    ("job_type_ahead", job_type_ahead),
    ("job_pipeline", job_pipeline),
    ("job_terminal", job_terminal),
    ("job_terminal_inside", job_terminal_inside),
    ("job_whose_parent_is_gone", job_whose_parent_is_gone),
    ("job_whose_parent_goes_on", job_whose_parent_goes_on),
];

pub(crate) const DEMANDING: &[Scene] = &[("job_over_nodes", job_over_nodes)];

fn key(text: &str) -> Step {
    Step::Type(text.into())
}

fn see(text: &str) -> Step {
    Step::Await(text.into())
}

/// A line typed at the prompt, and what is then to come.
fn line(text: &str, answer: &str) -> [Step; 2] {
    [key(&format!("{text}\n")), see(answer)]
}

/// A dialogue in a sandbox of its own, from the first prompt to `exit`.
fn play(place: &Place, name: &str, turns: Vec<Step>) -> Res<End> {
    let s = Sandbox::new(place, name, 2)?;
    let mut steps = vec![see("%% ")];
    steps.extend(turns);
    steps.push(key("\nexit 0\n"));
    s.talk(steps)?;
    Ok(End::Passed)
}

/// The same, and the next prompt.
fn short(text: &str, answer: &str) -> [Step; 3] {
    [key(&format!("{text}\n")), see(answer), see("%% ")]
}

/// Says `up`, and `cont` whenever it is continued: by then it has the terminal if it is to have it. (Not bash: it ignores
/// SIGQUIT. The sleeps are short since perl may take a signal just before one.)
const UP: &str = "shoal run -n 0 perl -e '$SIG{CONT} = sub { print STDERR \"cont\\n\" }; print STDERR \"u\" . \"p\\n\"; sleep 1 while 1'";

/// The same, started by a shell that is on the node itself.
fn up_inside() -> &'static str {
    UP.strip_prefix("shoal run -n 0 ").unwrap_or(UP)
}

fn job_ctrl_c(place: &Place) -> Res<End> {
    let mut turns = Vec::new();
    for (key_text, status) in [("\x03", "st=130\r"), ("\x1c", "st=131\r")] {
        turns.extend(line(UP, "up\r"));
        turns.extend([key(key_text), see("%% ")]);
        turns.extend(short("echo st=$?", status));
    }
    play(place, "job_ctrl_c", turns)
}

fn job_ctrl_z(place: &Place) -> Res<End> {
    let mut turns = Vec::new();
    turns.extend(line(UP, "up\r"));
    turns.extend([key("\x1a"), see("Stopped"), see("%% ")]);
    turns.extend(short("echo st=$?", "st=148\r"));
    turns.extend(short("jobs", "Stopped"));
    turns.extend(line("bg", "cont\r"));
    turns.extend(short("jobs", "Running"));
    turns.extend(short("kill -STOP %1; until jobs %1 | grep -q Stopped; do sleep 0.05; done", "\n"));
    turns.extend(line("fg", "cont\r"));
    turns.extend([key("\x1a"), see("Stopped"), see("%% ")]);
    turns.extend(line("fg", "cont\r"));
    turns.extend([key("\x03"), see("%% ")]);
    turns.extend(short("echo st=$?", "st=130\r"));
    turns.extend(line("jobs; echo non''e", "none\r"));
    play(place, "job_ctrl_z", turns)
}

fn job_kill(place: &Place) -> Res<End> {
    let mut turns = Vec::new();
    for (signal, status) in [("TERM", "st=143\r"), ("KILL", "st=137\r"), ("INT", "st=130\r")] {
        turns.extend(line(&format!("{UP} &"), "up\r"));
        turns.extend(short(&format!("kill -{signal} %1; wait %1; echo st=$?"), status));
    }
    turns.extend(line(&format!("{UP} &"), "up\r"));
    turns.extend(line("kill -STOP %1; until jobs %1 | grep -q Stopped; do sleep 0.05; done; echo s''een", "seen\r"));
    turns.extend(line("kill -TERM %1; kill -CONT %1; wait %1; echo st=$?", "st=143\r"));
    play(place, "job_kill", turns)
}

/// `jobs -l`, when the job has stopped.
const STOPPED: &str = "until jobs %1 | grep -q Stopped; do sleep 0.05; done; jobs -l";

fn job_tty_input(place: &Place) -> Res<End> {
    let mut turns = Vec::new();
    turns.extend(line("shoal run -n 0 cat &", "%% "));
    turns.extend(short(STOPPED, "Stopped (tty input)"));
    turns.extend(line("fg", "run -n 0 cat"));
    turns.extend([key("hello\n"), see("hello"), see("hello"), key("\x04"), see("%% ")]);
    turns.extend(short("echo st=$?", "st=0\r"));
    // One that never reads goes on in the background.
    turns.extend(line("shoal run -n 0 sh -c 'echo qui\"\"et' & wait $!; echo st=$?", "quiet\r"));
    turns.push(see("st=0\r"));
    play(place, "job_tty_input", turns)
}

fn job_tty_output(place: &Place) -> Res<End> {
    let mut turns = Vec::new();
    turns.extend(line("stty tostop", "%% "));
    turns.extend(line("shoal run -n 0 echo te''xt &", "%% "));
    turns.extend(short(STOPPED, "Stopped"));
    turns.extend(short("fg", "text\r"));
    turns.extend(line("stty -tostop; echo st=$?", "st=0\r"));
    play(place, "job_tty_output", turns)
}

/// What is typed while a program runs that does not read is for the shell, as at home.
fn job_type_ahead(place: &Place) -> Res<End> {
    let mut turns = Vec::new();
    turns.extend(line("shoal run -n 0 sh -c 'echo u\"\"p; sleep 1'", "up\r"));
    turns.extend(line("echo ty''ped", "typed\r"));
    play(place, "job_type_ahead", turns)
}

fn job_pipeline(place: &Place) -> Res<End> {
    let mut turns = Vec::new();
    turns.extend(short("shoal run -n 0 seq 1000 | shoal run -n 1 tail -1", "1000\r"));
    turns.extend(line(&format!("{UP} | shoal run -n 1 cat"), "up\r"));
    turns.extend([key("\x1a"), see("Stopped"), see("%% ")]);
    turns.extend(line("fg", "cont\r"));
    turns.extend([key("\x03"), see("%% ")]);
    turns.extend(line("echo st=$?", "st=130\r"));
    // Of one that has ended and has not been read, too.
    turns.extend(line(
        "shoal run -n 0 head -c 100000 /dev/zero | { head -c 1 >/dev/null; while shoal ps | grep -qw n0; do sleep 0.05; done; \
         echo en''ded; exec sleep 1007; }",
        "ended\r",
    ));
    turns.extend([key("\x1a"), see("Stopped"), see("%% ")]);
    // Until bash has heard of it, it would not end for a stopped job.
    turns.extend(line("kill -9 %1; disown %1; echo go''ne", "gone\r"));
    play(place, "job_pipeline", turns)
}

/// `-t`: a terminal on the node, of the caller's size.
fn job_terminal(place: &Place) -> Res<End> {
    let mut turns = Vec::new();
    turns.extend(line("shoal run -n 0 -t sh -c 'tty; stty size'; echo st=$?", "/dev/pts/"));
    turns.extend([see("24 100"), see("st=0")]);
    turns.extend(line("shoal run -n 0 sh -c 'tty; exit 3'; echo st=$?", "not a tty"));
    turns.push(see("st=3"));
    // One that has closed all of its terminal, as cat(1) before it exits, is not hung up, and may open it again.
    let again = "exec <&- >&- 2>&-; sleep 0.2; echo a''gain >/dev/tty; exit 4";
    turns.extend(line(&format!("shoal run -n 0 -t sh -c \"{again}\"; echo st=$?"), "again"));
    turns.push(see("st=4"));
    // In the background it stops, as what sets the modes of its terminal does; in the foreground every key is the program's.
    turns.extend(short("shoal run -n 0 -t sh -c 'read x; stty -a | grep -c isig; echo got $x' & sleep 0.3", "[1]"));
    turns.extend(short("jobs", "Stopped"));
    turns.extend([key("fg\n"), see("got $x'"), key("word\r"), see("1\r"), see("got word"), see("%% ")]);
    // One that was stopped and goes on there runs, and has the keys when it is in the foreground again, of which nothing tells.
    // It reads when it is there: before that it would be stopped, as any that reads in the background.
    let there = place.fresh("in_foreground");
    let there = there.display();
    let program = format!(
        "$| = 1; print qq(u) . qq(p\\n); select undef, undef, undef, 0.05 until -e q({there}); $x = <STDIN>; \
         system(q(stty -a | grep -c isig)); print qq(got $x)"
    );
    turns.extend(short("foreground() { ps -o stat= -C perl | grep -q +; }; echo kno''wn", "known\r"));
    let stopped = "until pkill -STOP -x perl; do sleep 0.1; done; while foreground; do sleep 0.1; done; echo a''way";
    turns.extend(short(&format!("{{ {stopped}; until foreground; do sleep 0.1; done; touch {there}; }} &"), "["));
    turns.extend(line(&format!("shoal run -n 0 -t perl -e '{program}'"), "Stopped"));
    turns.push(see("away\r"));
    turns.extend(short("bg", "$x)' &"));
    turns.extend([key("fg\n"), see("got $x)'"), key("other\r"), see("1\r"), see("got other"), see("%% ")]);
    play(place, "job_terminal", turns)
}

/// Job control of a bash on a node, through `-t`.
fn job_terminal_inside(place: &Place) -> Res<End> {
    let mut turns = Vec::new();
    turns.extend(line("PS1='in> ' shoal run -n 0 -t bash --norc --noprofile --noediting -i", "in> "));
    turns.extend(line("hostname", "n0\r"));
    turns.extend(line(up_inside(), "up\r"));
    turns.extend([key("\x1a"), see("Stopped"), see("in> ")]);
    turns.extend(line("echo st=$?", "st=148"));
    // Not the command that bash prints: it does that before it gives the terminal away.
    turns.extend(line("fg", "cont\r"));
    turns.extend([key("\x03"), see("in> ")]);
    turns.extend(line("echo st=$?", "st=130"));
    turns.extend(line("exit 5", "%% "));
    turns.extend(line("echo st=$?", "st=5"));
    play(place, "job_terminal_inside", turns)
}

/// Its parent, leader of its session, ends while the stand-ins for it are being made: nothing may wait for those.
fn job_whose_parent_is_gone(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "job_whose_parent_is_gone", 1)?;
    s.prints(
        "for i in $(seq 200); do setsid sh -c 'shoal run -n 0 -- echo x & exit 0'; done | cat | wc -l; shoal run -n 0 -- echo well",
        "200\nwell",
    )?;
    Ok(End::Passed)
}

/// SIGINT ends many processes of a job before their parent, which ignores it and waits for them later: they show as zombies until then.
fn job_whose_parent_goes_on(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "job_whose_parent_goes_on", 1)?;
    let program = "for (1..40) { fork or exec qw(sleep 1081) } $SIG{INT} = q(IGNORE); $0 = q(ready); <STDIN>; \
                   $n = 0; $n += $? == 2 while wait > 0; print qq($n\\n)";
    s.ok("mkfifo /run/go")?;
    let job = s.start(&format!("exec 3<>/run/go; setsid shoal run -n 0 perl -e '{program}' <&3"));
    s.until("test $(ps -e -o comm= | grep -cx sleep) = 40 && pgrep -x ready")?;
    s.ok("kill -INT -$(ps -o pgid= -p $(pgrep -ox sleep) | tr -d ' ')")?;
    s.until("test $(ps -e -o stat=,comm= | grep -c '^Z.*sleep') = 40")?;
    s.prints("ps -e -o comm= | grep -cx ready", "1")?;
    s.ok("echo > /run/go")?;
    same("how many have died of it", job.end()?.out.trim(), "40")?;
    s.until("! ps -e -o comm= | grep -qx sleep")?;
    Ok(End::Passed)
}

/// All members of a pipeline die of the signal that is sent to their group, though each is on another node and one is dead before another has it.
fn job_over_nodes(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "job_over_nodes", 4)?;
    let program = include_str!("group_over_nodes.py");
    for caller in ["", "shoal run -n 3 -- "] {
        s.prints(&format!("{caller}python3 - 40 <<'EOF'\n{program}\nEOF"), "0")?;
    }
    Ok(End::Passed)
}
