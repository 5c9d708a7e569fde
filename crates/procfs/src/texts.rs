//! What a ghost's stat and status say: of what the process is here, what the ghost is; of all else, what the body is.

use vocab::NodeId;

/// Fields of stat (proc_pid_stat(5)) that are the ghost's: parent, group, session, terminal and its group, start.
const OWN_FIELDS: [usize; 6] = [4, 5, 6, 7, 8, 22];
/// Lines of status that are the ghost's.
const OWN_LINES: [&[u8]; 7] = [b"Tgid", b"PPid", b"NStgid", b"NSpid", b"NSpgid", b"NSsid", b"Ngid"];

/// The part behind the name, which may hold anything and ends with the last parenthesis.
fn split(stat: &[u8]) -> Option<(&[u8], Vec<&[u8]>)> {
    let close = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = stat.get(close + 2..)?;
    Some((&stat[..close + 2], rest.trim_ascii_end().split(|byte| *byte == b' ').collect()))
}

/// A stat of the body's (or one of its threads') with what the ghost is.
pub(crate) fn stat(body: &[u8], ghost: &[u8]) -> Option<Vec<u8>> {
    let (head, mut fields) = split(body)?;
    let (_, own) = split(ghost)?;
    for number in OWN_FIELDS {
        // They are counted from 1, and the state is the third.
        *fields.get_mut(number - 3)? = own.get(number - 3)?;
    }
    Some([head, &fields.join(&b' '), b"\n"].concat())
}

/// The letter of its state.
pub(crate) fn state(stat: &[u8]) -> Option<u8> {
    split(stat)?.1.first()?.first().copied()
}

/// The same, from a status.
pub(crate) fn state_of(status: &[u8]) -> Option<u8> {
    line(status, b"State")?.strip_prefix(b"State:\t")?.first().copied()
}

fn line<'t>(text: &'t [u8], key: &[u8]) -> Option<&'t [u8]> {
    text.split(|byte| *byte == b'\n').find(|line| line.strip_prefix(key).is_some_and(|rest| rest.starts_with(b":")))
}

/// A status of the body's with what the ghost is, and where it is. `silent`: the node does not answer.
pub(crate) fn status(body: &[u8], ghost: &[u8], node: NodeId, silent: bool) -> Vec<u8> {
    let mut text = Vec::with_capacity(body.len() + 32);
    for one in body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let key = one.split(|byte| *byte == b':').next().unwrap_or_default();
        let own = OWN_LINES.contains(&key).then(|| line(ghost, key)).flatten();
        text.extend(own.unwrap_or(one));
        text.push(b'\n');
    }
    let silent = if silent { " (silent)" } else { "" };
    text.extend(format!("BProcNode:\t{}{silent}\n", node.0).bytes());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: &str = "4194304 1 0 0 0 7 8 0 0 20 -5 6 0 99 1000 12";

    #[test]
    fn a_stat_has_the_bodys_name_and_state_and_the_ghosts_kin() {
        let body = format!("12 (a) R 1 (b) R 0 3 4 0 -1 {REST}\n");
        let ghost = format!("12 (shoal) S 2 12 13 34816 12 {}\n", REST.replace("99", "55"));
        let merged = stat(body.as_bytes(), ghost.as_bytes()).expect("both are whole");
        let expected = "12 (a) R 1 (b) R 2 12 13 34816 12 4194304 1 0 0 0 7 8 0 0 20 -5 6 0 55 1000 12";
        assert_eq!(String::from_utf8_lossy(&merged), expected.to_owned() + "\n");
        assert_eq!((state(&merged), state(b"nothing")), (Some(b'R'), None));
        assert_eq!(stat(b"12 (a) R 1", ghost.as_bytes()), None);
    }

    #[test]
    fn a_status_says_where() {
        let body = b"Name:\ta\nState:\tR (running)\nTgid:\t12\nPid:\t12\nPPid:\t0\nNSpid:\t12\nThreads:\t3\n";
        let ghost = b"Name:\tshoal\nState:\tS (sleeping)\nTgid:\t12\nPid:\t12\nPPid:\t7\nNSpid:\t12\nThreads:\t1\n";
        let lines =
            "Name:\ta\nState:\tR (running)\nTgid:\t12\nPid:\t12\nPPid:\t7\nNSpid:\t12\nThreads:\t3\nBProcNode:\t2";
        for (silent, end) in [(false, "\n"), (true, " (silent)\n")] {
            let text = status(body, ghost, NodeId(2), silent);
            assert_eq!(String::from_utf8_lossy(&text), lines.to_owned() + end);
            assert_eq!(state_of(&text), Some(b'R'));
        }
    }
}
