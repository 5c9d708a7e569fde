//! Somebody who has the cluster's key and speaks badly on purpose: a node by its handshake, and then any bytes, sealed.

use super::{Doing, Res};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// `--peer ADDRESS KEY HEX`: connects as a node (docs/protocol.md), says the bytes in one record, and prints "dropped" when the other side closes the
/// connection within 5 s.
pub(crate) fn peer(args: &[String]) -> Res {
    let [address, key, bytes] = args else { return Err("wanted: ADDRESS KEY HEX".into()) };
    let key: [u8; 32] = hex(key)?.try_into().map_err(|_| "a key of another length")?;
    let mut stream = TcpStream::connect(address).doing("connect")?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).doing("set a timeout")?;
    stream.write_all(b"C").doing("say what it is")?;
    let mut noise = shake(&mut stream, &key).map_err(|e| format!("shake hands: {e}"))?;
    let bytes = hex(bytes)?;
    let mut room = vec![0; bytes.len() + 16];
    let length = noise.write_message(&bytes, &mut room).map_err(|e| format!("seal: {e}"))?;
    write(&mut stream, &room[..length]).doing("say it")?;
    loop {
        match stream.read(&mut [0; 65536]) {
            Ok(0) => break,
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::ConnectionReset => break,
            Err(e) => return Err(format!("it is not dropped: {e}")),
        }
    }
    println!("dropped");
    Ok(())
}

fn hex(text: &str) -> Res<Vec<u8>> {
    let digit = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..text.len()).step_by(2).map(digit).collect();
    bytes.ok_or_else(|| format!("{text:?} is not hexadecimal"))
}

fn write(stream: &mut TcpStream, record: &[u8]) -> std::io::Result<()> {
    stream.write_all(&[&(record.len() as u16).to_be_bytes(), record].concat())
}

type Failed = Box<dyn std::error::Error>;

fn shake(stream: &mut TcpStream, key: &[u8; 32]) -> Result<snow::TransportState, Failed> {
    let builder = snow::Builder::new("Noise_XXpsk0_25519_AESGCM_BLAKE2s".parse()?);
    let builder = builder.prologue(b"shoal")?.psk(0, key)?.local_private_key(&[9; 32])?;
    let mut shaking = builder.build_initiator()?;
    let mut room = [0; 1024];
    while !shaking.is_handshake_finished() {
        if shaking.is_my_turn() {
            let length = shaking.write_message(&[], &mut room)?;
            write(stream, &room[..length])?;
            continue;
        }
        let mut head = [0; 2];
        stream.read_exact(&mut head)?;
        let mut record = vec![0; u16::from_be_bytes(head).into()];
        stream.read_exact(&mut record)?;
        shaking.read_message(&record, &mut room)?;
    }
    Ok(shaking.into_transport_mode()?)
}
