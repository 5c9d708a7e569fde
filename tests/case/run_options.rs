//! Options of `shoal run` for the surroundings of a program, and what its environment says of where it is.

use super::scene::{holds, same, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::Res;

pub(crate) const SCENES: &[Scene] =
    &[("run_sets_surroundings", run_sets_surroundings), ("run_says_where_and_which", run_says_where_and_which)];

/// Where `shoal run` is called: before the shell that calls it. The last one starts on its caller's own node.
const CALLERS: [&str; 3] = ["", "shoal run -n 0 --", "shoal run -n 1 --"];

/// A complaint names what is wrong.
fn names(complaint: &str, word: &str) -> Res {
    holds(&format!("{complaint:?} names {word}"), complaint.contains(word))
}

/// Directory, environment and umask of the program, the same wherever it is asked for.
fn run_sets_surroundings(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "run_sets_surroundings", 2)?;
    for caller in CALLERS {
        let prints = |words: &str, expected: &str| {
            s.prints(&format!("cd /usr; {caller} sh -c '{}'", words.replace('\'', "'\\''")), expected)
        };
        prints("shoal run -n 1 --chdir /usr/lib pwd", "/usr/lib")?;
        prints("shoal run -n 1 --chdir lib/.. pwd", "/usr")?;
        prints("umask 022; shoal run -n 1 --umask 0027 sh -c umask", "0027")?;
        prints("A=1 B=2 shoal run -n 1 --env A=x=y --env C= sh -c 'echo $A,$B,${C-none}'", "x=y,2,")?;
        prints("shoal run -n 1 --env A=1 --env A=2 sh -c 'env | grep ^A='", "A=2")?;
        prints("shoal run -n 1 --env PATH=/nonexistent true 2>/dev/null; echo $?", "127")?;
        // A script without a first line is the shell's, in the directory that was said.
        prints("shoal run -n 1 --chdir /tmp --env A=1 -- sh -c 'cd ..; pwd; echo $A'", "/\n1")?;
        let missing = s.fails(&format!("{caller} shoal run -n 1 --chdir /nonexistent true"), 125)?;
        names(&missing, "/nonexistent")?;
        names(&missing, "directory")?;
        names(&s.fails(&format!("{caller} shoal run -n 1 --chdir /etc/passwd true"), 125)?, "/etc/passwd")?;
        names(&s.fails(&format!("{caller} shoal run -n 1 --env =x true"), 125)?, "NAME=VALUE")?;
        names(&s.fails(&format!("{caller} shoal run -n 1 --umask 9 true"), 125)?, "octal")?;
    }
    // The directory is that of the node, which the front end need not have.
    s.ok("mkdir -p /run/own && shoal run -n 1 sh -c 'test ! -e /run/there && mkdir /run/there'")?;
    s.prints("test -e /run/there || shoal run -n 1 --chdir /run/there pwd", "/run/there")?;
    names(&s.fails("shoal run -n 0 --chdir /run/there pwd", 125)?, "/run/there")?;
    Ok(End::Passed)
}

/// Node, its name, which copy of how many.
fn run_says_where_and_which(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "run_says_where_and_which", 3)?;
    let say = "sh -c 'echo $SHOAL_NODE $SHOAL_NODENAME $SHOAL_COPY/$SHOAL_COPIES'";
    for caller in CALLERS {
        let told = |words: &str| s.ok(&format!("{caller} shoal run {words} {say} | sort"));
        same("one", told("-n 1")?.as_str(), "1 n1 0/1")?;
        same("on the caller's node", told("-n 0")?.as_str(), "0 n0 0/1")?;
        same("named ones, in their order", told("-n 2,0-1")?.as_str(), "0 n0 1/3\n1 n1 2/3\n2 n2 0/3")?;
        same("all", told("-a")?.as_str(), "0 n0 0/3\n1 n1 1/3\n2 n2 2/3")?;
        let copies = s.ok(&format!("{caller} shoal run -N 4 {say} | cut -d' ' -f3 | sort"))?;
        same("more than there are nodes", copies.as_str(), "0/4\n1/4\n2/4\n3/4")?;
    }
    // A program that starts another one is no copy of that.
    s.prints(&format!("shoal run -n 0-1 sh -c \"shoal run -n 2 {}\"", say.replace('$', "\\$")), "2 n2 0/1\n2 n2 0/1")?;
    s.prints("bpsh 1,0 sh -c 'echo $SHOAL_NODE $SHOAL_COPY' | sort", "0 1\n1 0")?;
    Ok(End::Passed)
}
