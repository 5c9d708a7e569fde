//! The daemons' configuration file (TOML; `dist/shoal.toml` is an example with every setting).

use kern::sock::Ports;
use serde::Deserialize;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;
use vocab::{Fault, Result};

/// Read when no file is named; it may be missing.
const DEFAULT: &str = "/etc/shoal/shoal.toml";

/// The whole file: settings for both daemons, then those of each. An unknown one is an error.
#[derive(Deserialize, Debug, Default, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    pub(crate) key: Option<PathBuf>,
    pub(crate) run_dir: Option<PathBuf>,
    pub(crate) mon_listen: Option<String>,
    pub(crate) channel_ports: Option<String>,
    pub(crate) bpfs: Option<PathBuf>,
    #[serde(default)]
    pub(crate) front: Front,
    #[serde(default)]
    pub(crate) node: Node,
}

#[derive(Deserialize, Debug, Default, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Front {
    pub(crate) listen: Option<String>,
    /// Seconds.
    pub(crate) lost_after: Option<f64>,
    pub(crate) front_top: Option<i32>,
    pub(crate) lease_size: Option<i32>,
    pub(crate) max_nodes: Option<u32>,
    pub(crate) proc: Option<Proc>,
    pub(crate) proc_fresh_ms: Option<u32>,
    pub(crate) web_listen: Option<String>,
    pub(crate) state_dir: Option<PathBuf>,
    pub(crate) node_up: Option<PathBuf>,
    pub(crate) job_nodes: Option<String>,
    /// `all`, `none`, or nodes.
    pub(crate) squash: Option<String>,
    /// Users and `@groups` who may start programs.
    pub(crate) allow: Option<Vec<String>>,
}

#[derive(Deserialize, Debug, Default, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Node {
    pub(crate) front: Option<String>,
    pub(crate) number: Option<i32>,
    pub(crate) name: Option<String>,
    pub(crate) cgroup: Option<PathBuf>,
    pub(crate) cpu_weight: Option<u32>,
    pub(crate) proc: Option<bool>,
    /// Seconds.
    pub(crate) lost_grace: Option<f64>,
    pub(crate) reboot: Option<String>,
    pub(crate) halt: Option<String>,
    pub(crate) power_off: Option<String>,
    pub(crate) view: Option<View>,
    /// Directories of the view that are the node's own.
    pub(crate) local: Option<Vec<PathBuf>>,
    /// Directories that the node and the front end share otherwise.
    pub(crate) direct: Option<Vec<PathBuf>>,
    /// Where contents of the front end's files are kept, and how many MiB at most; 0: nowhere.
    pub(crate) store: Option<PathBuf>,
    pub(crate) store_mib: Option<u64>,
    /// Users and `@groups` whose programs are taken.
    pub(crate) allow: Option<Vec<String>>,
    pub(crate) unknown_users: Option<UnknownUsers>,
}

/// Whose files programs see on a node.
#[derive(Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum View {
    Node,
    Front,
    /// The node's files; no program may ask for the front end's.
    Never,
}

/// What becomes of programs of users whom a node does not know.
#[derive(Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum UnknownUsers {
    Warn,
    Refuse,
}

/// `proc` of [front].
#[derive(Deserialize, Clone, Copy, Debug, PartialEq)]
#[serde(try_from = "toml::Value")]
pub(crate) struct Proc(pub(crate) front::Proc);

impl TryFrom<toml::Value> for Proc {
    type Error = &'static str;

    fn try_from(value: toml::Value) -> std::result::Result<Proc, &'static str> {
        match (value.as_bool(), value.as_str()) {
            (Some(true), _) => Ok(Proc(front::Proc::Machine)),
            (Some(false), _) => Ok(Proc(front::Proc::Nobodys)),
            (_, Some("private")) => Ok(Proc(front::Proc::Private)),
            _ => Err("proc is true, false or \"private\""),
        }
    }
}

/// Reads `path`, or the default file if that is there.
///
/// # Errors
/// `Sys` when it cannot be read, `Refused` with line and reason for what is no configuration.
pub(crate) fn read(path: Option<&Path>) -> Result<File> {
    let file = path.unwrap_or(Path::new(DEFAULT));
    let text = match std::fs::read_to_string(file) {
        Err(e) if path.is_none() && e.kind() == ErrorKind::NotFound => return Ok(File::default()),
        other => other.map_err(|e| Fault::io(&e, format!("read the configuration {}", file.display())))?,
    };
    parse(&text).map_err(|fault| fault.doing(format!("read the configuration {}", file.display())))
}

pub(crate) fn parse(text: &str) -> Result<File> {
    toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| 1 + text[..span.start.min(text.len())].matches('\n').count());
        Fault::refused(format!("line {line}: {}", error.message().replace('\n', " ")))
    })
}

/// Replaces a default by what was said, if something was.
pub(crate) fn set<T>(place: &mut T, said: Option<T>) {
    if let Some(value) = said {
        *place = value;
    }
}

/// A setting of the file that is written as the flag of the same name is; `name` says which.
pub(crate) fn setting<T>(
    said: Option<&str>,
    name: &str,
    read: impl Fn(&str) -> std::result::Result<T, String>,
) -> Result<Option<T>> {
    said.map(read).transpose().map_err(|why| Fault::refused(format!("{name} in the configuration file: {why}")))
}

/// A list of users and groups.
///
/// # Errors
/// `Refused` for what is neither; `of` says whose list it is.
pub(crate) fn allow(said: Option<Vec<String>>, of: &str) -> Result<Option<Vec<String>>> {
    match said.iter().flatten().find(|entry| !link::allow::is_entry(entry)) {
        Some(bad) => Err(Fault::refused(format!(
            "allow of {of} in the configuration file: {bad:?} is neither a user nor a @group"
        ))),
        None => Ok(said),
    }
}

/// Where this daemon takes channels, by its flag or else by the file.
///
/// # Errors
/// `Refused` for what are no ports.
pub(crate) fn channel_ports(flag: Option<Ports>, said: Option<&str>) -> Result<()> {
    let ports = flag.or(setting(said, "channel_ports", str::parse)?);
    ports.into_iter().for_each(kern::sock::take_channels_at);
    Ok(())
}

/// The longest time that may be set, in seconds: a day.
const LONGEST: f64 = 86_400.0;

/// # Errors
/// `Refused` for what is no time between 0.1 s and a day.
pub(crate) fn duration(seconds: Option<f64>) -> Result<Option<Duration>> {
    match seconds {
        Some(s) if !(0.1..=LONGEST).contains(&s) => {
            Err(Fault::refused(format!("{s:?} seconds: 0.1 to {LONGEST} are possible")))
        }
        other => Ok(other.map(Duration::from_secs_f64)),
    }
}

/// For flags.
pub(crate) fn seconds(text: &str) -> std::result::Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| format!("{text:?} is no number of seconds (as 5 or 2.5)"))?;
    duration(Some(number)).map_err(|fault| fault.to_string())?.ok_or_else(|| "no time".into())
}

/// For flags: seconds, or a number with its unit.
pub(crate) fn span(text: &str) -> std::result::Result<Duration, String> {
    let (number, unit) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 1e-3),
        (None, Some(number)) => (number, 1.0),
        (None, None) => (text, 1.0),
    };
    let seconds = number.parse::<f64>().ok().map(|number| number * unit).filter(|s| (1e-3..=86_400.0).contains(s));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| format!("{text:?} is no time from 1ms to 86400s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_file_is_read_whole() {
        let file = parse(include_str!("../../../dist/shoal.toml")).expect("the example is right");
        assert_eq!(file.front.lost_after, Some(5.0));
        assert_eq!(file.node.front.as_deref(), Some("front.example:7706"));
    }

    #[test]
    fn a_span_is_seconds_or_has_its_unit() {
        for (text, ms) in [("50ms", 50), ("2s", 2000), ("0.5", 500)] {
            assert_eq!(span(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        assert!(["", "ms", "0", "-1s", "nan", "1h", "1e9"].iter().all(|text| span(text).is_err()));
    }

    #[test]
    fn a_mistake_is_told_with_its_line() {
        let fault = parse("key = \"k\"\n[front]\nlissten = \"x\"\n").expect_err("a misspelt name");
        assert!(fault.to_string().contains("line 3"), "{fault}");
        assert!(parse("[node]\nnumber = \"x\"").is_err());
        let fault = parse("[front]\nproc = \"privat\"\n").expect_err("a misspelt word");
        assert!(fault.to_string().contains("line 2: proc is true, false or \"private\""), "{fault}");
    }

    #[test]
    fn proc_has_three_values() {
        let proc = |value: &str| parse(&format!("[front]\nproc = {value}\n")).expect("it is one").front.proc;
        assert_eq!(proc("true"), Some(Proc(front::Proc::Machine)));
        assert_eq!(proc("false"), Some(Proc(front::Proc::Nobodys)));
        assert_eq!(proc("\"private\""), Some(Proc(front::Proc::Private)));
    }

    #[test]
    fn a_wrong_setting_is_told_with_its_name() {
        let fault = setting(Some("x:y"), "front of [node]", crate::address::front).expect_err("no port");
        assert!(fault.to_string().starts_with("front of [node] in the configuration file: \"x:y\""), "{fault}");
        assert_eq!(setting(None, "front", crate::address::front).expect("nothing said"), None);
    }

    #[test]
    fn times_have_bounds() {
        assert_eq!(seconds("2.5"), Ok(Duration::from_millis(2500)));
        for bad in ["0", "-1", "x", "1e9", "nan", "inf"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
