//! Images of processes in what a descriptor leads to.
//!
//! A process that has itself written waits, as one that moves itself, for a lock that the writer has ([`crate::itself`]): what is made of the image finds that nobody has it. The two are told
//! apart by what the writer tells in a file at the end.

use super::command::Command;
use super::fork::check_flags;
use super::text::{bytes, null};
use crate::said::{called, Done, Failed};
use crate::{helper, itself, told};
use std::ffi::{c_char, c_int, CString};
use std::sync::Mutex;

/// What `bproc_dump` returns where it was called, and in a process that was made of the image.
const WRITTEN: c_int = 0;
const RESUMED: c_int = 1;

fn dump(fd: c_int, flags: c_int) -> Done<c_int> {
    check_flags(flags)?;
    // SAFETY: a number of a descriptor.
    if unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1 {
        return Err(Failed::last(format!("write an image into descriptor {fd}")));
    }
    let (path, place, pid) = (told::new_path()?, told::new_place()?, std::process::id().to_string());
    helper::start(&["checkpoint", &pid, "-o-", "--tell", &path], [None, Some(fd)], place)?;
    itself::until_it_has_ended(place)?;
    match told::take_word(&path)? {
        None => Ok(RESUMED),
        Some(Ok(())) => Ok(WRITTEN),
        Some(Err(fault)) => Err(fault.into()),
    }
}

#[no_mangle]
pub(super) extern "C" fn bproc_dump(fd: c_int, flags: c_int) -> c_int {
    called(|| dump(fd, flags))
}

/// `shoal restore` in place of the caller: the process has the number that it had, and the caller's ends as that does.
#[no_mangle]
pub(super) extern "C" fn bproc_undump(fd: c_int) -> c_int {
    let done = || {
        // SAFETY: a number of a descriptor; it is to be open in the program that is executed.
        if unsafe { libc::fcntl(fd, libc::F_SETFD, 0) } == -1 {
            return Err(Failed::last(format!("read an image from descriptor {fd}")));
        }
        Err(Command::shoal(&[b"restore", format!("/proc/self/fd/{fd}").as_bytes()])?.execute())
    };
    called(done)
}

/// Names of libraries, which programs may keep here. Which pages travel depends on what the other machine has, and not on them.
static LIBRARIES: Mutex<Vec<CString>> = Mutex::new(Vec::new());

fn libraries<T>(then: impl FnOnce(&mut Vec<CString>) -> Done<T>) -> Done<T> {
    let mut all = LIBRARIES.lock().map_err(|_| Failed::new(libc::EPROTO, "the list of libraries is broken"))?;
    then(&mut all)
}

/// # Safety
/// A text, or null.
unsafe fn name(at: *mut c_char) -> Done<CString> {
    // SAFETY: as is asked for above.
    let bytes = unsafe { bytes(at, "the name of a library") }?;
    CString::new(bytes).map_err(|_| Failed::new(libc::EINVAL, "a zero in a name"))
}

#[no_mangle]
pub(super) extern "C" fn bproc_libclear() -> c_int {
    called(|| {
        libraries(|all| {
            all.clear();
            Ok(0)
        })
    })
}

/// # Safety
/// `library` is a text, or null.
#[no_mangle]
pub(super) unsafe extern "C" fn bproc_libadd(library: *mut c_char) -> c_int {
    // SAFETY: as is asked for above.
    let name = unsafe { name(library) };
    called(|| {
        name.and_then(|name| {
            libraries(|all| {
                if !all.contains(&name) {
                    all.push(name);
                }
                Ok(0)
            })
        })
    })
}

/// # Safety
/// `library` is a text, or null.
#[no_mangle]
pub(super) unsafe extern "C" fn bproc_libdel(library: *mut c_char) -> c_int {
    // SAFETY: as is asked for above.
    let name = unsafe { name(library) };
    called(|| {
        name.and_then(|name| {
            libraries(|all| {
                let before = all.len();
                all.retain(|had| *had != name);
                match all.len() == before {
                    true => Err(Failed::new(libc::ENOENT, format!("{name:?} is not among the libraries"))),
                    false => Ok(0),
                }
            })
        })
    })
}

#[no_mangle]
pub(super) extern "C" fn bproc_liblist(list: *mut *mut c_char) -> c_int {
    let done = || {
        // SAFETY: null, or the caller's.
        let Some(list) = (unsafe { list.as_mut() }) else { return Err(null("bproc_liblist")) };
        let bytes =
            libraries(|all| Ok(all.iter().flat_map(|name| name.as_bytes_with_nul().to_vec()).collect::<Vec<u8>>()))?;
        // One byte more: for none it is not null either.
        // SAFETY: a size that is not 0.
        let room = unsafe { libc::malloc(bytes.len() + 1) }.cast::<u8>();
        if room.is_null() {
            return Err(Failed::new(libc::ENOMEM, "room for the names of libraries"));
        }
        // SAFETY: there is room for that many.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), room, bytes.len()) };
        *list = room.cast();
        Ok(bytes.len() as c_int)
    };
    called(done)
}
