//! Which run of which machine this is.

use kern::proc::PROC;
use std::sync::OnceLock;
use vocab::{Fault, Result};

/// The kernel's own number for it; or, for machines that are made of one, what `SHOAL_BOOT` says in the environment of their daemon.
///
/// # Errors
/// As read(2).
pub fn boot() -> Result<String> {
    static BOOT: OnceLock<String> = OnceLock::new();
    if let Some(boot) = BOOT.get() {
        return Ok(boot.clone());
    }
    let path = format!("{PROC}/sys/kernel/random/boot_id");
    let boot = match std::env::var("SHOAL_BOOT") {
        Ok(boot) => boot,
        Err(_) => std::fs::read_to_string(&path).map_err(|e| Fault::io(&e, format!("read {path}")))?,
    };
    Ok(BOOT.get_or_init(|| boot.trim().to_owned()).clone())
}
