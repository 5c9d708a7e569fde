//! `shoal help`: the guide in the terminal.

use super::scene::{holds, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::Res;

pub(crate) const SCENES: &[Scene] = &[("help_shows_the_guide", help_shows_the_guide)];

/// Topics, a chapter, a command's options by the same word as `--help`, and a word that is neither.
fn help_shows_the_guide(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "help_shows_the_guide", 0)?;
    for topic in s.ok("shoal help | awk '/^  / {print $1}'")?.lines() {
        let shown = s.ok(&format!("PAGER=false shoal help {topic}"))?;
        holds(&format!("a chapter: {shown}"), shown.starts_with(&format!("{}: ", topic.to_uppercase())))?;
        holds(&format!("Markdown: {shown}"), !shown.contains("**") && !shown.contains("]("))?;
    }
    s.prints("shoal help | grep -c '^  '", "10")?;
    s.prints(
        "shoal help run | grep -c '^Usage: shoal run '; shoal help run | tail -1",
        "1\nThe guide: shoal help running",
    )?;
    s.ok("diff <(shoal run --help) <(shoal help run | head -n -2)")?;
    s.prints("shoal help job submit | grep -c '^Usage: shoal job submit '", "1")?;
    s.prints("shoal help MOV | head -1 | cut -d: -f1", "MOVING")?;
    // On a terminal the user's pager has it, in lines that fit.
    s.prints("COLUMNS=60 PAGER='sed s/^/paged:/' script -qec 'stty cols 50; shoal help moving' /dev/null </dev/null | tr -d '\\r' | grep -c ^paged:MOVING", "1")?;
    s.prints("script -qec 'stty cols 50; shoal help python' /dev/null </dev/null | tr -d '\\r' | grep -v '^    ' | awk 'length > 50' | wc -l", "0")?;
    let said = s.fails("shoal help nonsense", 1)?;
    holds(&said, said.contains("no command and no topic \"nonsense\""))?;
    Ok(End::Passed)
}
