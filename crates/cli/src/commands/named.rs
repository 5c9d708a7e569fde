//! Where bytes go, by a name that every failure to write there tells.

use std::io::{Error, Result, Write};
use vocab::Fault;

pub(crate) struct Named<W> {
    to: W,
    name: String,
}

impl<W: Write> Named<W> {
    pub(crate) fn new(to: W, name: impl Into<String>) -> Named<W> {
        Named { to, name: name.into() }
    }

    fn named<T>(&self, done: Result<T>) -> Result<T> {
        // Whoever writes looks at the kind: what was interrupted is tried again.
        done.map_err(|e| Error::new(e.kind(), Fault::io(&e, format!("write {}", self.name))))
    }
}

impl<W: Write> Write for Named<W> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let done = self.to.write(bytes);
        self.named(done)
    }

    fn flush(&mut self) -> Result<()> {
        let done = self.to.flush();
        self.named(done)
    }
}
