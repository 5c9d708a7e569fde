//! A token as one line of text: `shoal-1/10.0.0.1:7706/n5=lab5/SECRET`.

use crate::NAME;
use link::keys::derived;
use std::fmt;
use std::str::FromStr;
use vocab::{Fault, Result};

const MARK: &str = "shoal-1";
/// Where the token names neither number nor name.
const NOBODY: &str = "-";

/// An invitation for one machine. The secret shows in the text alone, not in `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// Where to dial, as `HOST:PORT`.
    pub front: String,
    /// For whom the token is, for people to read: the front end has the last word.
    whom: String,
    secret: [u8; 32],
}

impl Token {
    /// A new token for a node with this number and this name, as far as they are said.
    ///
    /// # Errors
    /// `Sys` as getrandom(2).
    pub fn new(front: &str, number: Option<vocab::NodeId>, name: Option<&str>) -> Result<Token> {
        let whom = match (number, name) {
            (Some(number), Some(name)) => format!("{number}={name}"),
            (Some(number), None) => number.to_string(),
            (None, name) => name.unwrap_or(NOBODY).to_owned(),
        };
        Ok(Token { front: front.to_owned(), whom, secret: link::random()? })
    }

    /// The token's name, which is said in the clear and tells nothing about the secret.
    pub fn name(&self) -> [u8; NAME] {
        let mut name = [0; NAME];
        name.copy_from_slice(&derived(&self.secret, b"shoal: the name of a token")[..NAME]);
        name
    }

    /// The key of the connection over which the machine joins.
    pub(crate) fn key(&self) -> [u8; 32] {
        derived(&self.secret, b"shoal: the key of a token")
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{MARK}/{}/{}/", self.front, self.whom)?;
        self.secret.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({}, {})", self.front, self.whom)
    }
}

impl FromStr for Token {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Token> {
        // The text is a secret: a message about it shows nothing of it.
        let none = || {
            Fault::refused(format!(
                "that is no token: it is one word, {MARK}/HOST:PORT/NODE/ and 64 digits, as `shoal key invite` prints it"
            ))
        };
        let parts: Vec<&str> = text.trim().split('/').collect();
        let [MARK, front, whom, digits] = parts[..] else { return Err(none()) };
        let (host, port) = front.rsplit_once(':').ok_or_else(none)?;
        let is_good = !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0);
        if !is_good || whom.is_empty() || digits.len() != 64 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(none());
        }
        let mut secret = [0; 32];
        for (byte, at) in secret.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| none())?;
        }
        Ok(Token { front: front.to_owned(), whom: whom.to_owned(), secret })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vocab::NodeId;

    #[test]
    fn a_token_is_read_back_and_does_not_print_its_secret() {
        for (number, name, whom) in [
            (None, None, "-"),
            (Some(NodeId(5)), None, "n5"),
            (None, Some("lab"), "lab"),
            (Some(NodeId(5)), Some("lab"), "n5=lab"),
        ] {
            let token = Token::new("[fd00::1]:7706", number, name).expect("random");
            let text = token.to_string();
            assert!(text.starts_with(&format!("shoal-1/[fd00::1]:7706/{whom}/")), "{text}");
            let read: Token = format!("{text}\n").parse().expect("it is one");
            assert_eq!((read.name(), read.key()), (token.name(), token.key()));
            assert!(!format!("{token:?}").contains(&text[text.len() - 64..]));
        }
    }

    #[test]
    fn names_and_keys_are_of_one_token_each_and_tell_nothing_of_one_another() {
        let make = || Token::new("a:1", None, None).expect("random");
        let (one, other) = (make(), make());
        assert!(one.name() != other.name() && one.key() != other.key());
        assert_ne!(one.key()[..NAME], one.name());
        assert_ne!(one.key(), one.secret);
    }

    #[test]
    fn what_is_no_token_is_refused_and_not_shown() {
        let good = Token::new("a:1", None, None).expect("random").to_string();
        let secret = &good[good.len() - 64..];
        let bad = [
            String::new(),
            secret.into(),
            good.replace("shoal-1", "shoal-2"),
            good.replace("a:1", "a"),
            good.replace("a:1", "a:0"),
            good.replace("a:1", ":1"),
            good[..good.len() - 1].into(),
            format!("{good}0"),
            format!("{}é", &good[..good.len() - 2]),
            good.replace("/-/", "//"),
        ];
        for text in bad {
            let fault = text.parse::<Token>().expect_err(&text);
            assert!(!fault.to_string().contains(&secret[..8]), "{fault}");
        }
    }
}
