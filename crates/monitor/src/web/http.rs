//! As much of HTTP/1.1 (RFC 9112) as one page needs: a request is read within a time and a size, answered, and the connection closed.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// The most bytes of a request's head, and of its body.
const MOST_HEAD: usize = 8 * 1024;
const MOST_BODY: usize = 1024;
/// All of a request is here within this time, and all of an answer is taken within that.
const REQUEST: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_secs(10);

/// What is asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Without what follows a question mark.
    pub(crate) path: String,
    /// Names in small letters.
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// An answer: a status, what it is, and the bytes.
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) kind: &'static str,
    /// Further header lines, each with its end.
    pub(crate) headers: String,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn new(status: u16, kind: &'static str, body: impl Into<Vec<u8>>) -> Response {
        Response { status, kind, headers: String::new(), body: body.into() }
    }

    /// A failure in words.
    pub(crate) fn failed(status: u16, why: &str) -> Response {
        Response::new(status, "text/plain; charset=utf-8", format!("{why}\n"))
    }
}

impl Request {
    /// The only header of this name; `None` also where there are several.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut all = self.headers.iter().filter(|(known, _)| known == name);
        let first = all.next()?;
        all.next().is_none().then_some(first.1.as_str())
    }

    /// Reads one.
    ///
    /// # Errors
    /// What the peer is told; `None`: it has said nothing, or is gone.
    pub(crate) fn read(stream: &mut TcpStream) -> Result<Request, Option<Response>> {
        let end = Instant::now() + REQUEST;
        let mut bytes = Vec::new();
        let head = loop {
            if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break at;
            }
            if bytes.len() > MOST_HEAD {
                return Err(Some(Response::failed(431, "the head of the request is too long")));
            }
            more(stream, &mut bytes, end)?;
        };
        let mut request = parse(&bytes[..head]).ok_or_else(|| Some(Response::failed(400, "that is no request")))?;
        let length = request.body_length()?;
        bytes.drain(..head + 4);
        while bytes.len() < length {
            more(stream, &mut bytes, end)?;
        }
        bytes.truncate(length);
        request.body = bytes;
        Ok(request)
    }

    fn body_length(&self) -> Result<usize, Option<Response>> {
        let has = |name: &str| self.headers.iter().any(|(known, _)| known == name);
        if has("transfer-encoding") {
            return Err(Some(Response::failed(501, "a request's body has a length here")));
        }
        match self.header("content-length").map(str::parse::<usize>) {
            None if has("content-length") => Err(Some(Response::failed(400, "a request has one length"))),
            None => Ok(0),
            Some(Ok(length)) if length <= MOST_BODY => Ok(length),
            Some(Ok(_)) => Err(Some(Response::failed(413, "the body of the request is too long"))),
            Some(Err(_)) => Err(Some(Response::failed(400, "the length of the body is no number"))),
        }
    }

    /// Has whoever asked named this server by an address, by `localhost` or by one of `names`? A page of somebody else's that has had its own name lead
    /// here (DNS rebinding) would name that.
    pub(crate) fn names_us(&self, names: &[String]) -> bool {
        let Some(host) = self.header("host") else { return false };
        let without_port = |host: &str| match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.ends_with(':') => name.to_string(),
            _ => host.to_string(),
        };
        let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((address, _)) => address.to_string(),
            None => without_port(host),
        };
        let name = name.to_ascii_lowercase();
        name.parse::<IpAddr>().is_ok()
            || name == "localhost"
            || names.iter().any(|known| known.to_ascii_lowercase() == name)
    }

    /// Does a page of this server ask, or no page at all?
    pub(crate) fn is_of_our_page(&self) -> bool {
        let has = self.headers.iter().any(|(name, _)| name == "origin");
        !has || self.header("origin").and_then(|origin| origin.strip_prefix("http://")) == self.header("host")
    }
}

fn more(stream: &mut TcpStream, bytes: &mut Vec<u8>, end: Instant) -> Result<(), Option<Response>> {
    let mut some = [0; 2048];
    let late = || Some(Response::failed(408, "the request did not come in time"));
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(late());
    }
    stream.set_read_timeout(Some(left)).map_err(|_| None)?;
    match stream.read(&mut some) {
        Ok(0) => Err(None),
        Ok(n) => {
            bytes.extend_from_slice(&some[..n]);
            Ok(())
        }
        Err(e) if matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => Err(late()),
        Err(e) if e.kind() == std::io::ErrorKind::Interrupted => Ok(()),
        Err(_) => Err(None),
    }
}

/// The head of a request.
fn parse(head: &[u8]) -> Option<Request> {
    let text = std::str::from_utf8(head).ok()?;
    if text.bytes().any(|b| b != b'\r' && b != b'\n' && b != b'\t' && b.is_ascii_control()) {
        return None;
    }
    let mut lines = text.split("\r\n");
    let words: Vec<&str> = lines.next()?.split(' ').collect();
    let [method, target, "HTTP/1.1" | "HTTP/1.0"] = words[..] else { return None };
    let path = target.split('?').next()?;
    if !path.starts_with('/') || !method.bytes().all(|b| b.is_ascii_uppercase()) || method.is_empty() {
        return None;
    }
    let mut request = Request { method: method.into(), path: path.into(), ..Request::default() };
    for line in lines {
        let (name, value) = line.split_once(':')?;
        if name.is_empty()
            || line.contains(['\r', '\n'])
            || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
        {
            return None;
        }
        request.headers.push((name.to_ascii_lowercase(), value.trim().into()));
    }
    Some(request)
}

/// Sends an answer, but for its body to HEAD, and closes.
pub(crate) fn answer(stream: &mut TcpStream, response: &Response, head_only: bool) {
    let Response { status, kind, headers, body } = response;
    let length = body.len();
    let mut bytes = format!(
        "HTTP/1.1 {status} {}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nX-Frame-Options: DENY\r\n{headers}\r\n",
        reason(*status)
    )
    .into_bytes();
    if !head_only {
        bytes.extend_from_slice(body);
    }
    let (end, mut left) = (Instant::now() + ANSWER, &bytes[..]);
    while !left.is_empty() {
        let time = end.saturating_duration_since(Instant::now());
        if time.is_zero() || stream.set_write_timeout(Some(time)).is_err() {
            return;
        }
        match stream.write(left) {
            Ok(n) if n > 0 => left = &left[n..],
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            // Who takes nothing gets no more.
            _ => return,
        }
    }
    let _ = stream.shutdown(Shutdown::Write);
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        413 => "Content Too Large",
        421 => "Misdirected Request",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        _ => "Service Unavailable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(host: &str) -> Request {
        parse(format!("GET / HTTP/1.1\r\nHost: {host}").as_bytes()).expect("a request")
    }

    #[test]
    fn who_is_asked_must_be_us() {
        let names = ["front.example".to_string()];
        for good in [
            "127.0.0.1:7707",
            "localhost",
            "LOCALHOST:1",
            "[::1]:7707",
            "10.0.0.7",
            "front.example:80",
            "Front.Example",
        ] {
            assert!(host(good).names_us(&names), "{good}");
        }
        for bad in
            ["evil.example", "127.0.0.1.evil.example:7707", "localhost.evil.example", "", "[evil]:1", "xfront.example"]
        {
            assert!(!host(bad).names_us(&names), "{bad}");
        }
        assert!(!parse(b"GET / HTTP/1.1").expect("a request").names_us(&names), "nobody is named");
        let two = parse(b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example").expect("a request");
        assert!(!two.names_us(&names), "two are named");
    }

    #[test]
    fn a_page_of_somebody_else_is_told_by_its_origin() {
        let of = |origin: &str| {
            parse(format!("POST / HTTP/1.1\r\nHost: localhost:7{origin}").as_bytes()).expect("a request")
        };
        assert!(of("").is_of_our_page() && of("\r\nOrigin: http://localhost:7").is_of_our_page());
        for bad in ["http://evil.example", "null", "https://localhost:7", "http://localhost"] {
            assert!(!of(&format!("\r\nOrigin: {bad}")).is_of_our_page(), "{bad}");
        }
    }

    #[test]
    fn what_is_no_request() {
        let good = parse(b"GET /a?b=c HTTP/1.1\r\nHost:  x \r\nX-Y: z:z").expect("a request");
        assert_eq!((good.path.as_str(), good.header("host"), good.header("x-y")), ("/a", Some("x"), Some("z:z")));
        for bad in [
            "",
            "GET",
            "GET /",
            "GET / HTTP/2",
            "GET  / HTTP/1.1",
            "get / HTTP/1.1",
            "GET http://x/ HTTP/1.1",
            "GET / HTTP/1.1\r\nx",
            "GET / HTTP/1.1\r\n: x",
            "GET / HTTP/1.1\r\nHost : x",
            "GET / HTTP/1.1\r\nHost: a\0b",
            "GET / HTTP/1.1\r\n Host: x",
            "GET / HTTP/1.1\r\nA: b\nHost: x",
        ] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad:?}");
        }
        assert_eq!(parse(b"GET /\xff HTTP/1.1"), None);
    }

    #[test]
    fn lengths_have_bounds() {
        let of = |more: &str| {
            let request = parse(format!("POST / HTTP/1.1{more}").as_bytes()).expect("a request");
            request.body_length().map_err(|why| why.map(|why| why.status))
        };
        assert_eq!(of(""), Ok(0));
        assert_eq!(of("\r\nContent-Length: 1024"), Ok(1024));
        assert_eq!(of("\r\nContent-Length: 1025"), Err(Some(413)));
        for bad in ["-1", "x", "99999999999999999999999", "1\r\nContent-Length: 2"] {
            assert_eq!(of(&format!("\r\nContent-Length: {bad}")), Err(Some(400)), "{bad}");
        }
        assert_eq!(of("\r\nTransfer-Encoding: chunked"), Err(Some(501)));
    }
}
