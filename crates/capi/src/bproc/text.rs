//! Words from C and into C's memory.

use crate::said::{Done, Failed};
use std::ffi::{c_char, c_int, CStr};

/// What a call was given where memory of the caller is wanted.
pub(crate) fn null(what: &str) -> Failed {
    Failed::new(libc::EFAULT, format!("{what}: a null pointer"))
}

/// The text at an address that C has given.
///
/// # Safety
/// Null, or the address of bytes that end with a zero and do not change for as long as the text is used.
pub(crate) unsafe fn bytes<'a>(at: *const c_char, what: &str) -> Done<&'a [u8]> {
    if at.is_null() {
        return Err(null(what));
    }
    // SAFETY: as is asked for above.
    Ok(unsafe { CStr::from_ptr(at) }.to_bytes())
}

/// The same, of which only a text in UTF-8 can be meant.
///
/// # Safety
/// As of [`bytes`].
pub(crate) unsafe fn text<'a>(at: *const c_char, what: &str) -> Done<&'a str> {
    // SAFETY: as is asked for above.
    let bytes = unsafe { bytes(at, what) }?;
    std::str::from_utf8(bytes).map_err(|_| Failed::new(libc::EINVAL, format!("{what}: no text")))
}

/// Writes as much of `text` as has room before a zero.
pub(crate) fn put(into: &mut [c_char], text: &str) {
    let Some(room) = into.len().checked_sub(1) else { return };
    into.fill(0);
    for (to, byte) in into.iter_mut().take(room).zip(text.bytes()) {
        *to = byte as c_char;
    }
}

/// The list of texts at an address that C has given, up to its null.
///
/// # Safety
/// Null, or the address of a list of addresses of texts that ends with a null; nothing of it changes for as long as the texts are used.
pub(crate) unsafe fn list<'a>(at: *const *mut c_char, what: &str) -> Done<Vec<&'a [u8]>> {
    if at.is_null() {
        return Err(null(what));
    }
    let mut texts = Vec::new();
    loop {
        // SAFETY: the list goes on up to its null.
        let one = unsafe { *at.add(texts.len()) };
        if one.is_null() {
            return Ok(texts);
        }
        // SAFETY: as is asked for above.
        texts.push(unsafe { bytes(one, what) }?);
    }
}

/// A size that C gives as a signed number.
pub(crate) fn size(given: c_int, what: &str) -> Done<usize> {
    usize::try_from(given).map_err(|_| Failed::new(libc::EINVAL, format!("{what}: a size of {given}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_cut_to_the_room_there_is_and_end_with_a_zero() {
        let mut room = [1; 4];
        put(&mut room, "down");
        assert_eq!(room.map(|c| c as u8), *b"dow\0");
        put(&mut room, "u");
        assert_eq!(room.map(|c| c as u8), *b"u\0\0\0");
        put(&mut [], "u");
    }

    #[test]
    fn null_is_no_text() {
        // SAFETY: null is allowed.
        let (one, all) = unsafe { (text(std::ptr::null(), "a"), list(std::ptr::null(), "b")) };
        assert_eq!((one.map_err(|f| f.errno), all.map_err(|f| f.errno)), (Err(libc::EFAULT), Err(libc::EFAULT)));
    }
}
