//! A stand-in whose process comes to where it stands: it is to become that process, which a tracer makes of it.

use super::{raw, Slot};
use crate::relay::Relay;

/// `struct msghdr` (recvmsg(2)).
#[repr(C)]
struct Message {
    name: u64,
    name_length: u64,
    parts: u64,
    part_count: u64,
    control: u64,
    control_length: u64,
    flags: u64,
}

/// Bytes of a `struct cmsghdr`, behind which three descriptors are.
const HEAD: usize = 16;

/// Waits for its tracer, with the standard streams of the process as descriptors 0 to 2, or /dev/null. All signals are blocked.
// SAFETY: (of a call) `slot` is the calling stand-in's own.
pub(super) unsafe fn come(slot: *mut Slot) -> ! {
    // SAFETY: 0 or the address of a static; the calls take numbers, and addresses of what lives through them.
    unsafe {
        let relay = ((*slot).relay as *const Relay).as_ref();
        let come = relay.map(Relay::before_home).and_then(|socket| receive(socket));
        let null = raw::call(
            libc::SYS_openat,
            [libc::AT_FDCWD as u64, c"/dev/null".as_ptr() as u64, libc::O_RDWR as u64, 0, 0, 0],
        );
        let streams = come.unwrap_or([null as i32; 3]);
        // The hold file goes last, since whoever serves it goes on with this process then. It may have any number.
        let hold = (*slot).fd;
        let place = |number: i32| {
            let from = streams[number as usize];
            if from != number {
                raw::call(libc::SYS_dup3, [from as u64, number as u64, 0, 0, 0, 0]);
            }
        };
        (0..3).filter(|number| *number != hold).for_each(place);
        match hold {
            0..3 => place(hold),
            _ => {
                raw::call(libc::SYS_close_range, [3, u32::MAX.into(), 0, 0, 0, 0]);
            }
        }
        loop {
            raw::call(libc::SYS_pause, [0; 6]);
        }
    }
}

/// The three descriptors of one message, all with numbers above 2.
// SAFETY: (of a call) only a stand-in may call it, for its own table.
unsafe fn receive(socket: i32) -> Option<[i32; 3]> {
    let mut byte = 0u8;
    let part = [&raw mut byte as u64, 1];
    let mut control = [0u64; 4];
    let mut message = Message {
        name: 0,
        name_length: 0,
        parts: &raw const part as u64,
        part_count: 1,
        control: &raw mut control as u64,
        control_length: size_of_val(&control) as u64,
        flags: 0,
    };
    // SAFETY: all that the message names lives through the call; the three numbers lie within the control data.
    unsafe {
        let got = raw::call(libc::SYS_recvmsg, [socket as u64, &raw mut message as u64, 0, 0, 0, 0]);
        if got != 1 || message.control_length < (HEAD + size_of::<[i32; 3]>()) as u64 {
            return None;
        }
        let come = control.as_ptr().cast::<u8>().add(HEAD).cast::<[i32; 3]>().read_volatile();
        let mut above = [0; 3];
        for (to, from) in above.iter_mut().zip(come) {
            *to = raw::call(libc::SYS_fcntl, [from as u64, libc::F_DUPFD as u64, 3, 0, 0, 0]) as i32;
        }
        Some(above)
    }
}
