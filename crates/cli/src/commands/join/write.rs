//! Key and configuration of a machine that joins, on its disk.

use super::super::invite::EXAMPLE;
use super::key_text;
use crate::{config, keyfile};
use join::joiner::Given;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use vocab::{names, Fault, NodeId, Result};

/// The configuration that the package brings.
const SHIPPED: &str = include_str!("../../../../../dist/shoal.toml");

/// A plan of what is to be written, made before the token is used.
#[derive(Debug)]
pub(super) struct Plan {
    config: PathBuf,
    key: PathBuf,
    front: String,
    /// The text to begin with; `None`: the configuration names this front end already.
    base: Option<String>,
    force: bool,
}

/// How the front end calls this machine.
pub(super) fn called(given: &Given) -> String {
    match (given.number, &given.name) {
        (Some(number), Some(name)) => format!("node {number} ({name})"),
        (Some(number), None) => format!("node {number}"),
        (None, Some(name)) => format!("node {name}"),
        (None, None) => "a node".into(),
    }
}

impl Plan {
    /// # Errors
    /// `Refused` for a configuration of another cluster, and for a key that is there, unless they are to be replaced.
    pub(super) fn new(config: &Path, key: &Path, front: &str, force: bool) -> Result<Plan> {
        if !force && fs::symlink_metadata(key).is_ok() {
            let why = format!("this machine has a cluster key, {}: --force replaces it", key.display());
            return Err(Fault::refused(why));
        }
        let base = base(config, front, force)?;
        Ok(Plan { config: config.into(), key: key.into(), front: front.into(), base, force })
    }

    /// Writes the configuration, and then the key, without which no daemon begins.
    ///
    /// # Errors
    /// `Sys` as open(2), write(2), fsync(2), rename(2); `Refused` for what the front end may not have said.
    pub(super) fn carry_out(&self, given: &Given) -> Result<()> {
        if let Some(base) = &self.base {
            let text = filled_in(base, &self.front, &self.key, given)?;
            put(&self.config, &text, 0o644, self.force)?;
        }
        if keyfile::read(&self.key).is_ok_and(|there| there == given.key) {
            return Ok(());
        }
        put(&self.key, &key_text(&given.key), 0o600, self.force)
    }
}

/// The text of which the configuration is made.
fn base(config: &Path, front: &str, force: bool) -> Result<Option<String>> {
    let text = match fs::read_to_string(config) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Some(SHIPPED.into())),
        other => other.map_err(|e| Fault::io(&e, format!("read {}", config.display())))?,
    };
    let said = config::read(Some(config)).map(|file| file.node.front);
    let is_whole = |front: &str| crate::address::front(front).unwrap_or_default();
    match said {
        Ok(Some(said)) if is_whole(&said) == EXAMPLE => Ok(Some(text)),
        Ok(Some(said)) if is_whole(&said) == front && !force => Ok(None),
        _ if force => Ok(Some(SHIPPED.into())),
        Ok(Some(said)) => {
            Err(Fault::refused(format!("{} is of another front end, {said}: --force replaces it", config.display())))
        }
        Ok(None) => Err(Fault::refused(format!(
            "{} is there and names no front end under [node]: add front = \"{front}\", or let --force replace it",
            config.display()
        ))),
        Err(fault) => Err(fault.doing("--force replaces a configuration that is no good")),
    }
}

/// The same text for this front end, number and name, with all else as it was.
fn filled_in(base: &str, front: &str, key: &Path, given: &Given) -> Result<String> {
    if let Some(name) = given.name.as_deref().filter(|name| !names::is_name(name)) {
        return Err(Fault::refused(format!("the front end gives a name that is none: {name:?}")));
    }
    let mut said = format!("front = \"{front}\"");
    if let Some(NodeId(number)) = given.number {
        said += &format!("\nnumber = {number}");
    }
    if let Some(name) = &given.name {
        said += &format!("\nname = \"{name}\"");
    }
    let key = key.to_str().filter(|text| !text.contains(['"', '\\', '\n'])).unwrap_or_default();
    let line = |line: &str| match line.trim() {
        text if text.starts_with("front = ") && text.contains(EXAMPLE) => said.clone(),
        text if text.starts_with("key = ") => format!("key = \"{key}\""),
        _ => line.to_owned(),
    };
    let text: String = base.lines().map(|one| line(one) + "\n").collect();
    let read = config::parse(&text)?;
    let is_so = read.node.front.as_deref() == Some(front)
        && read.key.as_deref() == Some(Path::new(key))
        && (given.number.is_none() || read.node.number == given.number.map(|number| number.0))
        && (given.name.is_none() || read.node.name == given.name);
    match is_so {
        true => Ok(text),
        false => Err(Fault::refused("the configuration there cannot be filled in: --force replaces it")),
    }
}

/// Replaces the file at `path`, whole or not at all; another one that was there is kept beside it.
fn put(path: &Path, text: &str, mode: u32, force: bool) -> Result<()> {
    let failed = |e: std::io::Error| Fault::io(&e, format!("write {}", path.display()));
    let beside = |ending: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        PathBuf::from(name)
    };
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let new = beside(".new");
    // Whatever the umask is: nobody but root puts files there.
    DirBuilder::new().recursive(true).mode(0o755).create(directory).map_err(failed)?;
    // An attempt before may have left one.
    let _ = fs::remove_file(&new);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&new).map_err(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
    if force && fs::symlink_metadata(path).is_ok() {
        fs::rename(path, beside(".before")).map_err(failed)?;
    }
    fs::rename(&new, path).and_then(|()| File::open(directory)?.sync_all()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(number: Option<i32>, name: Option<&str>) -> Given {
        Given { key: [7; 32], number: number.map(NodeId), name: name.map(Into::into) }
    }

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("shoal-join-{}-{name}", std::process::id()));
            fs::create_dir(&path).expect("a new directory");
            Scratch(path)
        }

        fn plan(&self, force: bool) -> Result<Plan> {
            Plan::new(&self.0.join("shoal.toml"), &self.0.join("key"), "10.0.0.1:7706", force)
        }

        fn read(&self, name: &str) -> String {
            fs::read_to_string(self.0.join(name)).unwrap_or_default()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_fresh_machine_has_the_shipped_configuration_filled_in() {
        use std::os::unix::fs::PermissionsExt;
        let scratch = Scratch::new("fresh");
        scratch.plan(false).and_then(|plan| plan.carry_out(&given(Some(5), Some("lab5")))).expect("room");
        let file = config::read(Some(&scratch.0.join("shoal.toml"))).expect("it is one");
        assert_eq!((file.node.number, file.node.name.as_deref()), (Some(5), Some("lab5")));
        assert_eq!(keyfile::read(&scratch.0.join("key")), Ok([7; 32]));
        let mode = fs::metadata(scratch.0.join("key")).expect("there").permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
        // The key is there now: nothing is fetched, unless that is wanted.
        assert!(scratch.plan(false).expect_err("a key").to_string().contains("--force"));
    }

    #[test]
    fn settings_that_were_made_before_stay() {
        let scratch = Scratch::new("stay");
        let own = SHIPPED.replace("# channel_ports", "channel_ports");
        fs::write(scratch.0.join("shoal.toml"), &own).expect("room");
        scratch.plan(false).and_then(|plan| plan.carry_out(&given(None, None))).expect("room");
        let file = config::read(Some(&scratch.0.join("shoal.toml"))).expect("it is one");
        assert_eq!(file.channel_ports.as_deref(), Some("7100-7199"));
        assert_eq!(file.node.front.as_deref(), Some("10.0.0.1:7706"));
        assert_eq!(file.node.number, None);
    }

    #[test]
    fn another_configuration_is_replaced_by_force_alone_and_kept() {
        let scratch = Scratch::new("other");
        let other = "[node]\nfront = \"elsewhere\"\n";
        fs::write(scratch.0.join("shoal.toml"), other).expect("room");
        fs::write(scratch.0.join("key"), "the other's").expect("room");
        assert!(scratch.plan(false).is_err());
        scratch.plan(true).and_then(|plan| plan.carry_out(&given(Some(1), None))).expect("room");
        assert_eq!(
            (scratch.read("shoal.toml.before"), scratch.read("key.before")),
            (other.into(), "the other's".into())
        );
        assert_eq!(keyfile::read(&scratch.0.join("key")), Ok([7; 32]));
        for unusable in ["[front]\n", "nonsense"] {
            fs::write(scratch.0.join("shoal.toml"), unusable).expect("room");
            fs::remove_file(scratch.0.join("key")).expect("there");
            assert!(scratch.plan(false).is_err(), "{unusable}");
            scratch.plan(true).and_then(|plan| plan.carry_out(&given(None, None))).expect("room");
        }
    }

    #[test]
    fn a_configuration_for_this_front_end_stays_as_it_is() {
        let scratch = Scratch::new("same");
        let own = "[node]\nfront = \"10.0.0.1\"\nnumber = 3\n";
        fs::write(scratch.0.join("shoal.toml"), own).expect("room");
        scratch.plan(false).and_then(|plan| plan.carry_out(&given(None, None))).expect("room");
        assert_eq!(scratch.read("shoal.toml"), own);
    }

    #[test]
    fn a_front_end_cannot_say_more_than_a_name() {
        let fault = filled_in(SHIPPED, "a:1", Path::new("/etc/shoal/key"), &given(None, Some("x\"\nreboot = \"rm")));
        assert!(fault.is_err());
    }
}
