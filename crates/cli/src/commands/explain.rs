//! `shoal move --explain`: how processes would move, in words.

use crate::print;
use client::Local;
use vocab::{Fault, NodeId, Pid, Result};
use wire::ask::{Answer, Ask};
use wire::look::{Explained, Outlook, Why};

/// Says how one would go; `false` when it would not.
pub(super) fn explain(daemon: &mut Local, pid: Pid, to: NodeId) -> Result<bool> {
    match daemon.ask(&Ask::Explain { pid, to }) {
        Ok(Answer::Explained(explained)) => {
            print::out(&in_words(&explained))?;
            Ok(explained.obstacles.is_empty())
        }
        Ok(other) => Err(Fault::wire(format!("the daemon answered Explain with {other:?}"))),
        Err(fault) => {
            kern::own::complain(fault);
            Ok(false)
        }
    }
}

fn in_words(explained: &Explained) -> String {
    let Explained { pid, from, to, outlook, obstacles } = explained;
    if from == to {
        let obstacles = obstacles.iter().map(|obstacle| format!("  {}\n", kern::own::plain(obstacle)));
        return format!("{pid} is on node {to}\n") + &obstacles.collect::<String>();
    }
    let mut text = match obstacles[..] {
        [] => format!("{pid} would go from node {from} to node {to}\n"),
        _ => format!("{pid} cannot go from node {from} to node {to}:\n"),
    };
    obstacles.iter().for_each(|obstacle| text.push_str(&format!("  {}\n", kern::own::plain(obstacle))));
    let Some(outlook) = outlook else { return text };
    if !obstacles.is_empty() {
        text.push_str("  otherwise\n");
    }
    for line in how(outlook) {
        text.push_str(&format!("  {line}\n"));
    }
    text
}

fn how(outlook: &Outlook) -> Vec<String> {
    let Outlook { why, own, large, nameless, resident, zero, files } = outlook;
    let (all, rest) = (own + nameless, own.saturating_sub(*large) + nameless);
    let how = match why {
        Why::Large => format!(
            "by pre-copy: {} are in large private mappings, which are copied while it runs; it stands still for {} and what it writes meanwhile",
            bytes(*large),
            bytes(rest)
        ),
        Why::Little => format!(
            "by stop-and-copy: it stands still for all of it, since only {} are in large private mappings, which is less than 4 MiB",
            bytes(*large)
        ),
        Why::ReadsDirectly => {
            "by stop-and-copy: it stands still for all of it, since it has a file open with O_DIRECT, and what is read so cannot be followed".into()
        }
    };
    let nameless = match nameless {
        0 => String::new(),
        bytes_of => format!(", of these {} in files without a name", bytes(*bytes_of)),
    };
    vec![
        how,
        format!("{} would travel{nameless}; {} are resident", bytes(all), bytes(*resident)),
        format!("{} of zero pages and {} of files' pages would not travel", bytes(*zero), bytes(*files)),
    ]
}

/// As people say it.
pub(super) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let (mut figure, mut unit) = (count as f64, 0);
    while figure >= 1024.0 && unit + 1 < UNITS.len() {
        figure /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{count} bytes"),
        _ => format!("{figure:.1} {}", UNITS[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn explained(obstacles: &[&str]) -> Explained {
        let outlook = Outlook {
            why: Why::Large,
            own: 1025 * MIB,
            large: 1024 * MIB,
            nameless: MIB,
            resident: 0,
            zero: 0,
            files: 4096,
        };
        let obstacles = obstacles.iter().map(ToString::to_string).collect();
        Explained { pid: Pid(7), from: NodeId(0), to: NodeId(1), outlook: Some(outlook), obstacles }
    }

    #[test]
    fn it_is_said_how_it_would_go_and_what_is_in_the_way() {
        let text = in_words(&explained(&[]));
        assert!(text.starts_with("7 would go from node n0 to node n1\n  by pre-copy: 1.0 GiB are"), "{text}");
        assert!(
            text.contains("stands still for 2.0 MiB and")
                && text.contains("  1.0 GiB would travel, of these 1.0 MiB in")
        );
        let text = in_words(&explained(&["one", "two"]));
        assert!(
            text.starts_with("7 cannot go from node n0 to node n1:\n  one\n  two\n  otherwise\n  by pre"),
            "{text}"
        );
    }

    #[test]
    fn bytes_are_said_in_units() {
        let said = [0, 1023, 1024, 1536 * 1024, 3 << 30].map(bytes);
        assert_eq!(said, ["0 bytes", "1023 bytes", "1.0 KiB", "1.5 MiB", "3.0 GiB"]);
    }
}
