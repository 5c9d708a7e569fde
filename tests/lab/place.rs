//! Where a run keeps its things: one directory under /tmp that everybody may look into, since programs run as ordinary
//! users too. It goes when the run ends; evidence stays, elsewhere.

use super::{compile, Doing, Res};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The run's directory and what is in it.
pub(crate) struct Place {
    dir: PathBuf,
    /// Names of the programs, sorted.
    pub(crate) programs: Vec<String>,
    /// The product; `None` when it has not been built.
    pub(crate) shoal: Option<PathBuf>,
    /// Where evidence of failures goes.
    pub(crate) evidence: PathBuf,
}

impl Place {
    /// Compiles the programs and lays everything out.
    pub(crate) fn make() -> Res<Place> {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("prog");
        let built = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let programs = compile::names(&sources)?;
        compile::all(&sources, &programs, &built.join("prog"))?;
        let dir = std::env::temp_dir().join(format!("shoal-tests.{}", std::process::id()));
        fs::create_dir(&dir).and_then(|()| open_to_all(&dir)).doing(format!("make {}", dir.display()))?;
        let place = Place { shoal: shoal(), evidence: built.join("evidence"), dir, programs };
        for name in &place.programs {
            let (from, to) = (built.join("prog").join(name), place.program(name));
            fs::copy(&from, &to).doing(format!("copy {}", from.display()))?;
        }
        Ok(place)
    }

    /// The path of a program.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// A path in the run's directory that nothing else has.
    pub(crate) fn fresh(&self, name: &str) -> PathBuf {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.dir.join(format!("{name}.{number}"))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // It is under /tmp and the run is over: nothing more can be done about a directory that does not go.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn open_to_all(dir: &Path) -> std::io::Result<()> {
    fs::set_permissions(dir, Permissions::from_mode(0o755))
}

/// `$SHOAL`, else what `cargo build --release` makes, for the host or for musl.
fn shoal() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("SHOAL") {
        return Some(path.into());
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent()?;
    ["x86_64-unknown-linux-gnu/release/shoal", "x86_64-unknown-linux-musl/release/shoal", "release/shoal"]
        .iter()
        .map(|tail| target.join(tail))
        .filter(|path| path.is_file())
        .max_by_key(|path| fs::metadata(path).and_then(|m| m.modified()).ok())
}
