//! What a thread may do to the memory to which nobody has given a protection key of its own (pkeys(7), PKRU).

use crate::thread::failed;
use kern::ptrace;
use vocab::{Pid, Result};

/// For key 0: no access, no writing.
const FIRST_KEY: u32 = 3;
/// Which parts of the state are not as at a program's beginning (XSTATE_BV, Intel SDM 1, 13.4.2).
const USED: usize = 512;
const KEY_RIGHTS: u64 = 1 << 9;

/// Lets a thread come to that memory, as calls in it need; its registers of before, if it could not.
pub(crate) fn open(tid: Pid) -> Result<Option<Vec<u8>>> {
    let Some(place) = kern::cpu::place_of_key_rights() else { return Ok(None) };
    let before = ptrace::xstate(tid).map_err(|errno| failed(tid, errno, "the extended registers"))?;
    let Some(after) = opened(&before, place) else { return Ok(None) };
    set(tid, &after)?;
    Ok(Some(before))
}

pub(crate) fn set(tid: Pid, state: &[u8]) -> Result<()> {
    ptrace::set_xstate(tid, state).map_err(|errno| failed(tid, errno, "the extended registers"))
}

/// The same state with rights for key 0; `None` if it has them.
fn opened(state: &[u8], place: usize) -> Option<Vec<u8>> {
    let used = u64::from_le_bytes(state.get(USED..USED + 8)?.try_into().ok()?);
    let rights = u32::from_le_bytes(state.get(place..place + 4)?.try_into().ok()?);
    if used & KEY_RIGHTS == 0 || rights & FIRST_KEY == 0 {
        return None;
    }
    let mut opened = state.to_vec();
    opened[place..place + 4].copy_from_slice(&(rights & !FIRST_KEY).to_le_bytes());
    Some(opened)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_rights_of_key_0_are_given() {
        let mut state = vec![0u8; 1024];
        state[800..804].copy_from_slice(&[0x56, 0x55, 0x55, 0x55]);
        assert_eq!(opened(&state, 800), None);
        state[513] = 2;
        let after = opened(&state, 800).expect("no writing");
        assert_eq!(after[800..804], [0x54, 0x55, 0x55, 0x55]);
        assert_eq!(opened(&after, 800), None);
        assert_eq!(opened(&[0; 100], 800), None);
    }
}
