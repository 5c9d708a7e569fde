//! Options of sockets (socket(7)) that an image has, and who may set them.

use image::files::SocketOption;
use kern::proc::PROC;

/// Options of SOL_SOCKET that a pair of sockets can have, and that getsockopt(2) gives as setsockopt(2) takes them.
pub(crate) const OPTIONS: [i32; 11] = [
    libc::SO_KEEPALIVE,
    libc::SO_PRIORITY,
    libc::SO_LINGER,
    libc::SO_PASSCRED,
    libc::SO_RCVLOWAT,
    libc::SO_RCVTIMEO,
    libc::SO_SNDTIMEO,
    libc::SO_TIMESTAMP,
    libc::SO_PASSSEC,
    SO_PASSPIDFD,
    SO_PASSRIGHTS,
];
const SO_PASSPIDFD: i32 = 76;
const SO_PASSRIGHTS: i32 = 83;
/// These come last: what is sent again must fit, and messages must not be looked at from the middle.
pub(crate) const LAST: [i32; 3] = [libc::SO_SNDBUF, libc::SO_RCVBUF, libc::SO_PEEK_OFF];

/// May an ordinary user set this option? A size is cut to the most that users may have on this machine (net.core.wmem_max, net.core.rmem_max; socket(7)).
pub(crate) fn is_a_users_to_set(option: &mut SocketOption) -> bool {
    /// Above it SO_PRIORITY takes CAP_NET_ADMIN.
    const MOST_URGENT: i32 = 6;
    /// Where the settings are not shown, as in a network namespace of an older kernel (linux: `SK_WMEM_MAX`).
    const USUAL: i32 = 212_992;
    let number = option.value.0.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
    let most = |setting: &str| {
        let text = std::fs::read_to_string(format!("{PROC}/sys/net/core/{setting}")).unwrap_or_default();
        text.trim().parse::<i32>().unwrap_or(USUAL).saturating_mul(2)
    };
    let cut = match option.name {
        libc::SO_SNDBUF => most("wmem_max"),
        libc::SO_RCVBUF => most("rmem_max"),
        libc::SO_PRIORITY => return (0..=MOST_URGENT).contains(&number),
        other => return OPTIONS.contains(&other) || LAST.contains(&other),
    };
    option.value = number.min(cut).to_ne_bytes().to_vec().into();
    true
}
