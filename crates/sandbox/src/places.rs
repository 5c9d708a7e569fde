//! The mounts of the cluster and of each machine. Everything written goes to a private tmpfs, so that the machine
//! outside never sees a file of ours.

use crate::layout::{BIN_DIR, CONFIG, KEY, RUN_DIR, SHARED_DIR};
use kern::mount::{self, Flags};
use std::fs::{self, File, Permissions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use vocab::{Fault, Result};

/// The hosts file of the cluster, from which each machine takes its own.
const HOSTS: &str = "/run/shoal/hosts";

/// Other names of the program, as launchers and scripts call it.
const NAMES: [&str; 6] = ["rsh", "shoal-rsh", "bpsh", "bpcp", "bpstat", "bpctl"];

/// The cluster's own mounts, with the program where all machines will find it.
pub(crate) fn furnish_cluster(key: &str, hosts: &str) -> Result<()> {
    let program = File::open("/proc/self/exe").map_err(|e| Fault::io(&e, "open this program"))?;
    mount::make_all_private()?;
    mount::mount("proc", Path::new("/proc"), Flags::NOSUID | Flags::NODEV | Flags::NOEXEC, "")?;
    new_run()?;
    make_dir(BIN_DIR)?;
    make_dir(SHARED_DIR)?;
    install(program)?;
    write(KEY, key, 0o600)?;
    write(HOSTS, hosts, 0o644)
}

/// Copies the program, so that users who cannot reach where it was built can run it, with the capability for that.
fn install(mut program: File) -> Result<()> {
    let path = Path::new(BIN_DIR).join("shoal");
    let doing = || format!("copy this program to {}", path.display());
    let mut copy = File::create_new(&path).map_err(|e| Fault::io(&e, doing()))?;
    std::io::copy(&mut program, &mut copy).map_err(|e| Fault::io(&e, doing()))?;
    copy.set_permissions(Permissions::from_mode(0o755)).map_err(|e| Fault::io(&e, doing()))?;
    mount::set_checkpoint_restore(&path)?;
    NAMES.into_iter().try_for_each(|name| {
        let link = Path::new(BIN_DIR).join(name);
        std::os::unix::fs::symlink("shoal", &link).map_err(|e| Fault::io(&e, format!("link {}", link.display())))
    })
}

/// What a machine has in its file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// All that this machine has, and what the cluster shares.
    Front,
    /// All that this machine has.
    Node,
    /// The kernel's file systems, and the program.
    Bare,
}

/// A machine's own mounts, made from the cluster's, which it has been born with. `config` is its daemon's.
pub(crate) fn furnish_machine(kind: Kind, config: &str) -> Result<()> {
    let front = kind == Kind::Front;
    mount::make_all_private()?;
    mount::mount("proc", Path::new("/proc"), Flags::NOSUID | Flags::NODEV | Flags::NOEXEC, "")?;
    let key = fs::read_to_string(KEY).map_err(|e| Fault::io(&e, "read the cluster key"))?;
    let hosts = fs::read_to_string(HOSTS).map_err(|e| Fault::io(&e, "read the hosts file"))?;
    let (bin, shared) = (open(BIN_DIR)?, open(SHARED_DIR)?);
    new_run()?;
    show(&bin, BIN_DIR)?;
    mount::make_read_only(Path::new(BIN_DIR))?;
    if front {
        show(&shared, SHARED_DIR)?;
    } else {
        own_terminals()?;
    }
    write(KEY, &key, 0o600)?;
    write(HOSTS, &hosts, 0o644)?;
    write(CONFIG, config, 0o644)?;
    mount::bind(Path::new(HOSTS), Path::new("/etc/hosts"))?;
    own_shared_memory()?;
    if kind == Kind::Bare {
        leave_the_rest()?;
    }
    // The same as on a machine that systemd has started: mounts made later reach the namespaces made from this one.
    mount::make_all_shared()
}

/// The root is an empty file system from now on, with the kernel's and /run in it, and a place for temporary files.
fn leave_the_rest() -> Result<()> {
    let root = Path::new(RUN_DIR).join("root");
    fs::create_dir(&root).map_err(|e| Fault::io(&e, "make a root"))?;
    mount::mount("tmpfs", &root, Flags::NODEV, "mode=755")?;
    // Or it would be in itself, by /run.
    mount::make_unbindable(&root)?;
    for name in ["proc", "sys", "dev", "run", "tmp"] {
        let at = root.join(name);
        fs::create_dir(&at).map_err(|e| Fault::io(&e, format!("make {}", at.display())))?;
        match name {
            "tmp" => fs::set_permissions(&at, Permissions::from_mode(0o1777))
                .map_err(|e| Fault::io(&e, format!("open {} for all", at.display())))?,
            name => mount::bind_all(&Path::new("/").join(name), &at)?,
        }
    }
    mount::become_root(&root)
}

/// A fresh, empty /run: what others keep there (sockets of the machine outside) is not for a machine of the sandbox.
fn new_run() -> Result<()> {
    mount::mount("tmpfs", Path::new("/run"), Flags::NODEV, "mode=755")?;
    make_dir(RUN_DIR)?;
    let lock = Path::new("/run/lock");
    fs::create_dir(lock)
        .and_then(|()| fs::set_permissions(lock, Permissions::from_mode(0o1777)))
        .map_err(|e| Fault::io(&e, "make /run/lock"))
}

/// Shows a directory of the covered /run at its old place in the new one.
fn show(directory: &File, at: &str) -> Result<()> {
    make_dir(at)?;
    // The descriptor still leads to the directory, the path does not: it is covered.
    mount::bind(&PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())), Path::new(at))
}

/// Two nodes do not see each other's terminals. The front end keeps the outer ones: the caller's is among them.
fn own_terminals() -> Result<()> {
    mount::mount(
        "devpts",
        Path::new("/dev/pts"),
        Flags::NOSUID | Flags::NOEXEC,
        "newinstance,ptmxmode=0666,mode=620,gid=5",
    )
}

/// Two machines do not share memory.
fn own_shared_memory() -> Result<()> {
    match Path::new("/dev/shm") {
        place if place.is_dir() => mount::mount("tmpfs", place, Flags::NOSUID | Flags::NODEV, "mode=1777"),
        _ => Ok(()),
    }
}

fn make_dir(path: &str) -> Result<()> {
    fs::create_dir_all(path).map_err(|e| Fault::io(&e, format!("make {path}")))
}

fn open(path: &str) -> Result<File> {
    File::open(path).map_err(|e| Fault::io(&e, format!("open {path}")))
}

fn write(path: &str, text: &str, mode: u32) -> Result<()> {
    use std::io::Write;
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|e| Fault::io(&e, format!("write {path}")))
}
