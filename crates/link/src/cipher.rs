//! AES-256-GCM for the records of Noise, by AWS-LC, from one buffer into another: what comes with `snow` copies each record first, and works on
//! the copy. And random bytes by the kernel: what comes with `snow` reads a file where the program is linked statically, and keeps that open.

use aws_lc_rs::aead::{Aad, LessSafeKey, Nonce, UnboundKey, AES_256_GCM, NONCE_LEN};
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{BoxedCryptoResolver, CryptoResolver, DefaultResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::Error;

/// Bytes that sealing adds.
pub(crate) const TAG: usize = 16;
const KEY: usize = 32;

/// All that Noise needs, with this cipher.
pub(crate) fn resolver() -> BoxedCryptoResolver {
    Box::new(Resolver(DefaultResolver))
}

struct Resolver(DefaultResolver);

impl CryptoResolver for Resolver {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(Kernel))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        self.0.resolve_dh(choice)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        self.0.resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        match choice {
            CipherChoice::AESGCM => Some(Box::new(AesGcm(None))),
            other => self.0.resolve_cipher(other),
        }
    }
}

struct Kernel;

impl Random for Kernel {
    fn try_fill_bytes(&mut self, into: &mut [u8]) -> Result<(), Error> {
        kern::sys::random(into).map_err(|_| Error::Rng)
    }
}

/// The key is wiped when it is dropped or another one set (aws-lc: `OPENSSL_free`). Nonces are counted, and never used twice, by `snow`, which sets a key before it
/// uses one.
struct AesGcm(Option<LessSafeKey>);

impl AesGcm {
    fn key(&self) -> Result<&LessSafeKey, Error> {
        self.0.as_ref().ok_or(Error::State(snow::error::StateProblem::MissingKeyMaterial))
    }
}

/// 32 bits of zeroes and the number, big endian (Noise, 12.4).
fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[NONCE_LEN - size_of::<u64>()..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

impl Cipher for AesGcm {
    fn name(&self) -> &'static str {
        "AESGCM"
    }

    fn set(&mut self, key: &[u8; KEY]) {
        // A key of this length is never refused; without one nothing can be sealed or opened.
        self.0 = UnboundKey::new(&AES_256_GCM, key).ok().map(LessSafeKey::new);
    }

    /// 0 bytes, which no peer can open, where it cannot be done: `snow` has checked all that could keep it from that.
    fn encrypt(&self, number: u64, with: &[u8], plain: &[u8], out: &mut [u8]) -> usize {
        let whole = plain.len() + TAG;
        let sealed =
            self.key().ok().zip(out.get_mut(..whole)).and_then(|(key, out)| {
                key.seal_in_place_scatter(nonce(number), Aad::from(with), &mut [], plain, out).ok()
            });
        sealed.map_or(0, |()| whole)
    }

    /// Nothing of what cannot be opened is left in `out`.
    fn decrypt(&self, number: u64, with: &[u8], sealed: &[u8], out: &mut [u8]) -> Result<usize, Error> {
        let (content, tag) = sealed.split_at_checked(sealed.len().wrapping_sub(TAG)).ok_or(Error::Decrypt)?;
        let out = out.get_mut(..content.len()).ok_or(Error::Decrypt)?;
        let opened = self.key()?.open_separate_gather(nonce(number), Aad::from(with), content, tag, out);
        opened.map(|()| content.len()).map_err(|_| {
            out.fill(0);
            Error::Decrypt
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use snow::{Builder, TransportState};

    const PATTERN: &str = "Noise_NNpsk0_25519_AESGCM_BLAKE2s";

    /// One end with this cipher, the other with that of `snow`.
    fn pair(dials: bool) -> (TransportState, TransportState) {
        let params = || PATTERN.parse().expect("a pattern");
        let ours = Builder::with_resolver(params(), resolver()).psk(0, &[7; 32]).expect("a key");
        let theirs = Builder::new(params()).psk(0, &[7; 32]).expect("a key");
        let built = |dials, builder: Builder<'_>| match dials {
            true => builder.build_initiator(),
            false => builder.build_responder(),
        };
        let (mut ours, mut theirs) = (built(dials, ours).expect("whole"), built(!dials, theirs).expect("whole"));
        let (mut message, mut payload) = ([0; 256], [0; 256]);
        for turn in 0..2 {
            let (from, to) = if dials == (turn == 0) { (&mut ours, &mut theirs) } else { (&mut theirs, &mut ours) };
            let length = from.write_message(&[turn], &mut message).expect("its turn");
            assert_eq!(to.read_message(&message[..length], &mut payload).expect("of the other"), 1);
        }
        (ours.into_transport_mode().expect("over"), theirs.into_transport_mode().expect("over"))
    }

    /// Records of all lengths about the blocks of the cipher, and of the largest, in both directions, at whatever number they are.
    #[test]
    fn the_other_end_may_have_another_cipher() {
        for dials in [true, false] {
            let (mut ours, mut theirs) = pair(dials);
            let (mut sealed, mut opened) = (vec![0; 65535], vec![0; 65535]);
            for length in (0..600).chain([4096, 65518, 65519]) {
                let plain: Vec<u8> = (0..length).map(|at| (at * 31 + length) as u8).collect();
                for _ in 0..2 {
                    let count = ours.write_message(&plain, &mut sealed).expect("room");
                    assert_eq!(count, length + TAG);
                    assert_eq!(theirs.read_message(&sealed[..count], &mut opened), Ok(length));
                    assert!(opened[..length] == plain, "{length} bytes of ours");
                    std::mem::swap(&mut ours, &mut theirs);
                }
            }
            // Both make the same new key of the old one.
            for one in [&mut ours, &mut theirs] {
                one.rekey_outgoing();
                one.rekey_incoming();
            }
            let count = ours.write_message(b"rekeyed", &mut sealed).expect("room");
            assert_eq!(theirs.read_message(&sealed[..count], &mut opened), Ok(7));
            // One that is left out is missed.
            ours.write_message(b"lost", &mut sealed).expect("room");
            let count = ours.write_message(b"next", &mut sealed).expect("room");
            assert_eq!(theirs.read_message(&sealed[..count], &mut opened), Err(Error::Decrypt));
        }
    }

    #[test]
    fn nothing_is_left_of_what_cannot_be_opened() {
        let (mut ours, mut theirs) = pair(true);
        let (mut sealed, mut opened) = (vec![0; 1024], vec![7; 1024]);
        let count = theirs.write_message(&[5; 500], &mut sealed).expect("room");
        sealed[count - 1] ^= 1;
        assert_eq!(ours.read_message(&sealed[..count], &mut opened), Err(Error::Decrypt));
        assert!(opened[..500].iter().all(|byte| *byte == 0) && opened[500..].iter().all(|byte| *byte == 7));
        for short in 0..TAG {
            assert_eq!(ours.read_message(&sealed[..short], &mut opened), Err(Error::Decrypt));
        }
        // It is still the first that is expected.
        sealed[count - 1] ^= 1;
        assert_eq!(ours.read_message(&sealed[..count], &mut opened), Ok(500));
    }
}
