//! Network devices by rtnetlink(7): a bridge, pairs of virtual Ethernet devices, addresses. One request, one answer.

use crate::sys;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use vocab::{Fault, Result};

/// A route socket. It acts on the network namespace in which it was opened, also when it is used from another one.
#[derive(Debug)]
pub struct Netlink {
    fd: OwnedFd,
}

/// Attributes and flags that libc does not name (linux/if_link.h, linux/veth.h).
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
const NESTED: u16 = 1 << 15;

/// The number of the loopback device in every network namespace (linux: LOOPBACK_IFINDEX, net/flow.h).
pub const LOOPBACK: u32 = 1;

impl Netlink {
    pub fn open() -> Result<Netlink> {
        // SAFETY: takes numbers, returns a new descriptor.
        let fd = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE) };
        Ok(Netlink { fd: sys::own(fd.into(), || "open a route socket".into())? })
    }

    /// Makes a bridge and sets it up.
    pub fn add_bridge(&self, name: &str) -> Result<()> {
        let mut request = Request::new(libc::RTM_NEWLINK, libc::NLM_F_CREATE | libc::NLM_F_EXCL);
        request.link_header(0, true);
        request.text(libc::IFLA_IFNAME, name);
        request.nest(libc::IFLA_LINKINFO, |info| info.bytes(IFLA_INFO_KIND, b"bridge"));
        self.talk(request, || format!("make bridge {name}"))
    }

    /// Makes a pair of devices joined as by a cable: `name` here, set up and put on the bridge number `bridge`, and
    /// `peer` (still down) in the network namespace `namespace`, with the hardware address `mac`.
    pub fn add_veth(&self, name: &str, bridge: u32, peer: &str, mac: [u8; 6], namespace: BorrowedFd<'_>) -> Result<()> {
        let mut request = Request::new(libc::RTM_NEWLINK, libc::NLM_F_CREATE | libc::NLM_F_EXCL);
        request.link_header(0, true);
        request.text(libc::IFLA_IFNAME, name);
        request.number(libc::IFLA_MASTER, bridge);
        request.nest(libc::IFLA_LINKINFO, |info| {
            info.bytes(IFLA_INFO_KIND, b"veth");
            info.nest(IFLA_INFO_DATA, |data| {
                data.nest(VETH_INFO_PEER, |other| {
                    other.link_header(0, false);
                    other.text(libc::IFLA_IFNAME, peer);
                    other.bytes(libc::IFLA_ADDRESS, &mac);
                    other.number(libc::IFLA_NET_NS_FD, namespace.as_raw_fd() as u32);
                })
            });
        });
        self.talk(request, || format!("make the pair {name} and {peer}"))
    }

    /// Sets device number `index` up or down.
    pub fn set_up(&self, index: u32, up: bool) -> Result<()> {
        let mut request = Request::new(libc::RTM_NEWLINK, 0);
        request.link_header(index, up);
        self.talk(request, || format!("set device {index} {}", if up { "up" } else { "down" }))
    }

    /// Puts device number `index` on the bridge number `bridge`; 0 takes it off the one it is on.
    pub fn set_bridge(&self, index: u32, bridge: u32) -> Result<()> {
        let mut request = Request::new(libc::RTM_NEWLINK, 0);
        request.push(&[0; 4]);
        request.push(&index.to_ne_bytes());
        request.push(&[0; 8]); // flags, and none of them is meant
        request.number(libc::IFLA_MASTER, bridge);
        self.talk(request, || format!("put device {index} on bridge {bridge}"))
    }

    /// Removes device number `index`; the other end of a pair goes with it.
    pub fn delete(&self, index: u32) -> Result<()> {
        let mut request = Request::new(libc::RTM_DELLINK, 0);
        request.link_header(index, false);
        self.talk(request, || format!("remove device {index}"))
    }

    /// Gives device number `index` an address with its network's prefix length (0 to 32).
    pub fn add_address(&self, index: u32, address: Ipv4Addr, prefix: u8) -> Result<()> {
        let mut request = Request::new(libc::RTM_NEWADDR, libc::NLM_F_CREATE | libc::NLM_F_EXCL);
        // struct ifaddrmsg: family, prefix length, flags, scope, device.
        request.push(&[libc::AF_INET as u8, prefix, 0, 0]);
        request.push(&index.to_ne_bytes());
        request.bytes(libc::IFA_LOCAL, &address.octets());
        request.bytes(libc::IFA_ADDRESS, &address.octets());
        self.talk(request, || format!("give device {index} the address {address}/{prefix}"))
    }

    /// Sends one request and waits for its answer, which the kernel gives before the call that sends it returns.
    fn talk(&self, request: Request, doing: impl Fn() -> String) -> Result<()> {
        let bytes = request.finish();
        sys::write(self.fd.as_fd(), &bytes).map_err(|errno| Fault::sys(errno, doing()))?;
        let mut answer = [0u8; 4096];
        let length = sys::read(self.fd.as_fd(), &mut answer).map_err(|errno| Fault::sys(errno, doing()))?;
        match answer_errno(&answer[..length]) {
            Some(0) => Ok(()),
            Some(errno) => Err(Fault::sys(errno, doing())),
            None => Err(Fault::bug(format!("{}: the kernel's answer is no acknowledgement", doing()))),
        }
    }
}

/// The errno in an NLMSG_ERROR message (0: done); `None` for another message.
fn answer_errno(answer: &[u8]) -> Option<i32> {
    let kind = u16::from_ne_bytes(*answer.get(4..)?.first_chunk()?);
    let error = i32::from_ne_bytes(*answer.get(16..)?.first_chunk()?);
    (i32::from(kind) == libc::NLMSG_ERROR).then_some(-error)
}

/// The number of the device `name` in the network namespace of this process.
pub fn device_number(name: &str) -> Result<u32> {
    let text = sys::cstring(name)?;
    // SAFETY: a string that ends with a NUL.
    match unsafe { libc::if_nametoindex(text.as_ptr()) } {
        0 => Err(Fault::io(&std::io::Error::last_os_error(), format!("find the device {name}"))),
        number => Ok(number),
    }
}

/// A request under construction: header, fixed part, attributes; every part starts at a multiple of 4.
struct Request(Vec<u8>);

/// Bytes of struct nlmsghdr.
const HEADER: usize = 16;

impl Request {
    fn new(kind: u16, flags: i32) -> Request {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        let flags = (flags | libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16;
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        Request(bytes)
    }

    fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    /// struct ifinfomsg: family and type of no interest, the device, its flags and which of them are meant.
    fn link_header(&mut self, index: u32, up: bool) {
        let flags = if up { libc::IFF_UP as u32 } else { 0 };
        self.push(&[0; 4]);
        self.push(&index.to_ne_bytes());
        self.push(&flags.to_ne_bytes());
        self.push(&(libc::IFF_UP as u32).to_ne_bytes());
    }

    fn bytes(&mut self, kind: u16, value: &[u8]) {
        let length = (4 + value.len()) as u16;
        self.push(&length.to_ne_bytes().into_iter().chain(kind.to_ne_bytes()).collect::<Vec<u8>>());
        self.push(value);
    }

    fn text(&mut self, kind: u16, value: &str) {
        self.bytes(kind, &[value.as_bytes(), &[0]].concat());
    }

    fn number(&mut self, kind: u16, value: u32) {
        self.bytes(kind, &value.to_ne_bytes());
    }

    fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Request)) {
        let start = self.0.len();
        self.bytes(kind | NESTED, &[]);
        fill(self);
        let length = (self.0.len() - start) as u16;
        self.0[start..start + 2].copy_from_slice(&length.to_ne_bytes());
    }

    fn finish(mut self) -> Vec<u8> {
        let length = (self.0.len() as u32).to_ne_bytes();
        self.0[..4].copy_from_slice(&length);
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_nests_know_their_length() {
        let mut request = Request::new(libc::RTM_NEWLINK, 0);
        request.nest(7, |inner| inner.text(3, "ab"));
        let bytes = request.finish();
        assert_eq!(bytes.len(), HEADER + 4 + 4 + 4);
        assert_eq!(bytes[..4], 28u32.to_ne_bytes());
        assert_eq!(bytes[HEADER..HEADER + 4], [12, 0, 7, 0x80]);
        assert_eq!(bytes[HEADER + 4..], [7, 0, 3, 0, b'a', b'b', 0, 0]);
    }

    #[test]
    fn an_unknown_device_is_an_error_with_its_errno() {
        let netlink = Netlink::open().expect("a route socket");
        let fault = netlink.set_up(0x7fff_0000, false).expect_err("no such device");
        assert_eq!(fault.errno, libc::ENODEV);
    }
}
