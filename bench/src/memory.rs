//! Memory as the kernel charges it to one group of processes: kernel memory included, other work on the machine left out.

use std::path::{Path, PathBuf};
use vocab::{Fault, Result};

/// A cgroup with the memory controller, removed when dropped.
pub(crate) struct Charged {
    dir: PathBuf,
    usage: &'static str,
}

impl Charged {
    /// # Errors
    /// Where there is no memory controller (version 1 or 2).
    pub(crate) fn new() -> Result<Charged> {
        let name = format!("shoal-bench.{}", std::process::id());
        let first = Path::new("/sys/fs/cgroup/memory");
        if first.join("memory.usage_in_bytes").exists() {
            return make(first.join(name), "memory.usage_in_bytes");
        }
        let root = Path::new("/sys/fs/cgroup");
        let _ = std::fs::write(root.join("cgroup.subtree_control"), "+memory");
        make(root.join(name), "memory.current")
    }

    /// The file to which a PID is written.
    pub(crate) fn door(&self) -> PathBuf {
        self.dir.join("cgroup.procs")
    }

    pub(crate) fn bytes(&self) -> Result<f64> {
        let path = self.dir.join(self.usage);
        let text = std::fs::read_to_string(&path).map_err(|e| Fault::io(&e, format!("read {}", path.display())))?;
        crate::place::parse(&text)
    }
}

fn make(dir: PathBuf, usage: &'static str) -> Result<Charged> {
    std::fs::create_dir(&dir).map_err(|e| Fault::io(&e, format!("make {}", dir.display())))?;
    let charged = Charged { dir, usage };
    charged.bytes()?;
    Ok(charged)
}

impl Drop for Charged {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.dir);
    }
}
