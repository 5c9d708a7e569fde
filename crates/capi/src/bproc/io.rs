//! Descriptors of a process that has come to another node, where it makes them itself, by its own rights.

use super::nodes::{all, find, here};
use super::text::null;
use super::types::{Io, IO_DELAY, IO_FILE, IO_MEMFILE, IO_MOST, IO_SEND_INFO, IO_SOCKET};
use crate::said::{Done, Failed};
use std::ffi::{c_int, CString};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use vocab::Fault;

/// The first descriptor that is no standard stream.
const FIRST: c_int = 3;

/// What it has open there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Plan {
    /// No input; what it writes to its outputs comes to where the caller's go.
    Forwarded,
    /// Its standard streams are what the caller has at these numbers, over the network.
    Streams([c_int; 3]),
    /// These and nothing else.
    These(Vec<Step>),
}

/// One descriptor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Step {
    fd: c_int,
    what: What,
    /// The process writes its PID and the number of the descriptor there first, each as an int.
    tells: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum What {
    File { name: CString, flags: c_int, mode: c_int, offset: i64 },
    Socket { address: [u8; 4], port: u16 },
    Memory(Vec<u8>),
}

/// What the caller has written down.
///
/// # Safety
/// `io` has `iolen` entries, or is null; an entry of a file has a name that ends with a zero, one of memory has as many bytes as it says.
pub(super) unsafe fn plan(io: *const Io, iolen: c_int) -> Done<Plan> {
    let count = match usize::try_from(iolen) {
        Ok(count) if count <= IO_MOST => count,
        Err(_) if iolen == -1 => return Ok(Plan::Forwarded),
        _ => return Err(Failed::new(libc::EINVAL, format!("{iolen} descriptors, where {IO_MOST} are the most"))),
    };
    if io.is_null() && count > 0 {
        return Err(null("a list of descriptors"));
    }
    // SAFETY: as is asked for above.
    let entries = (0..count).map(|i| unsafe { &*io.add(i) });
    // SAFETY: as is asked for above.
    let steps = entries.map(|entry| unsafe { step(entry) }).collect::<Done<Vec<Step>>>()?;
    Ok(Plan::These(steps))
}

/// # Safety
/// As of [`plan`].
unsafe fn step(entry: &Io) -> Done<Step> {
    let Io { fd, kind, flags, what } = *entry;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is live.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    if fd < 0 || fd as u64 >= limit.rlim_cur {
        return Err(Failed::new(libc::EBADF, format!("no descriptor has the number {fd}")));
    }
    if flags & !(IO_SEND_INFO | IO_DELAY) != 0 {
        return Err(Failed::new(libc::EINVAL, format!("descriptor {fd}: flags {flags:#x}")));
    }
    let what = match kind {
        IO_FILE => {
            // SAFETY: any bytes are an entry of a file.
            let file = unsafe { &entry.what.file };
            if !file.name.contains(&0) {
                return Err(Failed::new(libc::ENAMETOOLONG, format!("descriptor {fd}: a name without an end")));
            }
            // SAFETY: it ends with a zero, as was just found.
            let name = CString::from(unsafe { std::ffi::CStr::from_ptr(file.name.as_ptr()) });
            What::File { name, flags: file.flags, mode: file.mode, offset: file.offset }
        }
        // SAFETY: any bytes are an address.
        IO_SOCKET => socket(fd, unsafe { what.addr })?,
        IO_MEMFILE => {
            // SAFETY: any bytes are an entry of memory.
            let memory = unsafe { what.mem };
            let size = usize::try_from(memory.size)
                .map_err(|_| Failed::new(libc::EINVAL, format!("descriptor {fd}: {} bytes of memory", memory.size)))?;
            if size > 0 && memory.base.is_null() {
                return Err(null("a file of memory"));
            }
            // SAFETY: as is asked for above.
            let bytes = (size > 0).then(|| unsafe { std::slice::from_raw_parts(memory.base.cast::<u8>(), size) });
            What::Memory(bytes.unwrap_or_default().to_vec())
        }
        _ => return Err(Failed::new(libc::EINVAL, format!("descriptor {fd}: a type of {kind}"))),
    };
    Ok(Step { fd, what, tells: flags & IO_SEND_INFO != 0 })
}

/// 0.0.0.0 is the machine on which the caller runs, as others reach it.
fn socket(fd: c_int, address: libc::sockaddr) -> Done<What> {
    if i32::from(address.sa_family) != libc::AF_INET {
        let why = format!("descriptor {fd}: a socket of family {}, and not of AF_INET", address.sa_family);
        return Err(Failed::new(libc::EAFNOSUPPORT, why));
    }
    let part = |at: usize| address.sa_data[at] as u8;
    let port = u16::from_be_bytes([part(0), part(1)]);
    let mut ip = Ipv4Addr::new(part(2), part(3), part(4), part(5));
    if ip.is_unspecified() {
        let own = find(&all()?, here()?)?.address.clone();
        ip = match own.parse::<SocketAddr>().map(|own| own.ip()) {
            Ok(IpAddr::V4(own)) if !own.is_unspecified() => own,
            _ => {
                let why = format!("descriptor {fd}: the address 0.0.0.0, and what others call this machine ({own:?}) is no address of IPv4");
                return Err(Failed::new(libc::EADDRNOTAVAIL, why));
            }
        };
    }
    Ok(What::Socket { address: ip.octets(), port })
}

impl Plan {
    /// The caller's descriptors of which the standard streams are made; -1: nothing.
    pub(super) fn streams(&self) -> [c_int; 3] {
        match self {
            Plan::Forwarded => [-1, 1, 2],
            Plan::These(_) => [-1; 3],
            Plan::Streams(streams) => *streams,
        }
    }

    /// Puts the standard streams in their places, in a child that is yet to be moved; -1: none. They may be any descriptors, these three too.
    pub(super) fn place_streams(&self) -> Done<()> {
        let streams = self.streams();
        // SAFETY: system calls on numbers of descriptors, in a process that is the library's own until it has come to its node.
        unsafe {
            let above: [c_int; 3] =
                streams.map(|fd| if fd < 0 { -1 } else { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, FIRST) });
            for (number, from) in (0..).zip(above) {
                let placed = match from {
                    -1 if number == 0 => null_at(number),
                    -1 => libc::close(number).max(0),
                    from => libc::dup2(from, number),
                };
                if placed < 0 {
                    return Err(Failed::last(format!("make descriptor {number}")));
                }
            }
        }
        Ok(())
    }
}

/// # Safety
/// Nobody else uses that number.
unsafe fn null_at(number: c_int) -> c_int {
    // SAFETY: numbers of descriptors.
    unsafe {
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        let placed = if null == number { null } else { libc::dup2(null, number) };
        if null > number {
            libc::close(null);
        }
        placed
    }
}

/// What else may be open while a process is moved away: nothing that leads to others. The descriptor is one of /dev/null, closed on exec.
pub(super) fn only_null() -> Done<c_int> {
    // SAFETY: as in `place_streams`.
    unsafe {
        let opened = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        let null = libc::fcntl(opened, libc::F_DUPFD_CLOEXEC, FIRST);
        if (0..FIRST).contains(&opened) {
            libc::close(opened);
        }
        let all = null >= FIRST
            && (null == FIRST || libc::dup3(null, FIRST, libc::O_CLOEXEC) == FIRST)
            && libc::syscall(libc::SYS_close_range, FIRST + 1, u32::MAX, 0) == 0;
        match all {
            true => Ok(FIRST),
            false => Err(Failed::last("close what is open")),
        }
    }
}

/// In the process that has come.
///
/// # Errors
/// The first that could not be made.
pub(super) fn carry_out(plan: &Plan) -> Done<()> {
    let (stay, steps) = match plan {
        Plan::Forwarded | Plan::Streams(_) => (FIRST, &[][..]),
        Plan::These(steps) => (0, &steps[..]),
    };
    // SAFETY: numbers of descriptors.
    unsafe { libc::syscall(libc::SYS_close_range, stay, u32::MAX, 0) };
    steps.iter().try_for_each(make)
}

fn make(step: &Step) -> Done<()> {
    let Step { fd, what, tells } = step;
    let made = match what {
        What::File { name, flags, mode, offset } => {
            // SAFETY: a text with its zero.
            let made = unsafe { libc::open(name.as_ptr(), *flags, *mode) };
            // SAFETY: a number of a descriptor. What has no place, a pipe, stays as it is.
            if made >= 0 && *offset != 0 && unsafe { libc::lseek(made, *offset, libc::SEEK_SET) } == -1 {
                return Err(Failed::last(format!("descriptor {fd}: go to byte {offset} of {name:?}")));
            }
            made
        }
        What::Socket { address, port } => connect(*address, *port),
        What::Memory(bytes) => memory(bytes)?,
    };
    if made < 0 {
        return Err(Failed::last(format!("descriptor {fd}: {what:?}")));
    }
    if *tells {
        // SAFETY: it takes nothing.
        let words = [unsafe { libc::getpid() }, *fd];
        // SAFETY: both are live, and as long as is said.
        let sent = unsafe { libc::write(made, words.as_ptr().cast(), size_of_val(&words)) };
        if sent != size_of_val(&words) as isize {
            return Err(Failed::last(format!("descriptor {fd}: tell who writes there")));
        }
    }
    if made == *fd {
        return Ok(());
    }
    // SAFETY: numbers of descriptors.
    match unsafe { libc::dup2(made, *fd) } {
        -1 => Err(Failed::last(format!("descriptor {fd}"))),
        _ => {
            // SAFETY: as above.
            unsafe { libc::close(made) };
            Ok(())
        }
    }
}

/// -1 with errno on failure.
fn connect(address: [u8; 4], port: u16) -> c_int {
    // SAFETY: system calls with what is live; an address of all zeroes is one.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0);
        let mut to: libc::sockaddr_in = std::mem::zeroed();
        to.sin_family = libc::AF_INET as libc::sa_family_t;
        (to.sin_port, to.sin_addr.s_addr) = (port.to_be(), u32::from_ne_bytes(address));
        let length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        match socket >= 0 && libc::connect(socket, (&raw const to).cast(), length) == 0 {
            true => socket,
            false => -1,
        }
    }
}

/// A file that has these bytes, at its begin.
fn memory(bytes: &[u8]) -> Done<c_int> {
    use std::io::{Seek, Write};
    use std::os::fd::{FromRawFd, IntoRawFd};
    // SAFETY: a text with its zero.
    let made = unsafe { libc::memfd_create(c"bproc".as_ptr(), 0) };
    if made < 0 {
        return Err(Failed::last("make a file of memory"));
    }
    // SAFETY: the call has just made it.
    let mut file = unsafe { std::fs::File::from_raw_fd(made) };
    let written = file.write_all(bytes).and_then(|()| file.rewind());
    written.map_err(|e| Fault::io(&e, "fill a file of memory"))?;
    Ok(file.into_raw_fd())
}
