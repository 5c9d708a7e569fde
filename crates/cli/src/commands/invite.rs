//! `shoal key invite`: a token by which one machine gets the cluster key ([`join`]).

use super::job::time;
use crate::{address, config, keyfile, log};
use clap::Args;
use join::inviter::{Invited, Inviter, Outcome};
use join::Token;
use kern::clock::monotonic_us;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use vocab::{names, Fault, NodeId, Result};
use wire::ask::NodeRow;

/// The value of `front` in the configuration that the package brings.
pub(super) const EXAMPLE: &str = "front.example:7706";

/// The word by which the process that waits says that it does.
const WAITS: &str = "waits";

/// Print a token by which one machine joins the cluster: there, as root, `shoal node join TOKEN`
///
/// Whoever has the token is given the cluster key, once. A process of its own waits for that machine, until the token is used or has expired; `shoal key
/// withdraw` ends it. Only root of a machine is given the key (a port of root's is asked for). The machine dials the port of the front end's daemon, as all nodes do.
#[derive(Args, Debug)]
pub(crate) struct Invite {
    /// How long the token is good: seconds, or a number with s, m, h or d
    #[arg(long = "for", value_name = "TIME", default_value = "10m", value_parser = time)]
    life: u64,
    /// The node's number [default: the next free one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..=65_535))]
    number: Option<i32>,
    /// The node's name [default: its host's]
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<String>,
    /// The address from which alone the token can be used
    #[arg(long, value_name = "IP")]
    from: Option<IpAddr>,
    /// Also from a port that is not root's, as behind a translation of addresses: any user of a machine can use the token then
    #[arg(long)]
    any_port: bool,
    /// Where the machine is to dial [default: `front` of [node] in the configuration, or else an address of this machine]
    #[arg(long, value_name = "HOST[:PORT]", value_parser = address::front)]
    address: Option<String>,
    /// Stay until the token is used or has expired, and fail if it was not used
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    of: FrontEnd,
}

/// Withdraw all tokens that wait to be used
#[derive(Args, Debug)]
pub(crate) struct Withdraw {
    #[command(flatten)]
    of: FrontEnd,
}

/// The front end whose tokens they are.
#[derive(Args, Debug)]
struct FrontEnd {
    /// The front end's configuration file [default: /etc/shoal/shoal.toml, if it is there]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Wait for a machine that has a token; the cluster key and the token are read from standard input
#[derive(Args, Debug)]
pub(crate) struct Invitation {
    #[arg(long)]
    run_dir: PathBuf,
    #[arg(long)]
    life: u64,
    #[arg(long)]
    number: Option<i32>,
    #[arg(long)]
    name: Option<String>,
    #[arg(long)]
    from: Option<IpAddr>,
    #[arg(long)]
    any_port: bool,
}

pub(super) fn name(text: &str) -> std::result::Result<String, String> {
    match names::is_name(text) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "{text:?} is no name of a node: letters, digits, . - and _, no number and no word as `all` or `up`"
        )),
    }
}

impl FrontEnd {
    fn configuration(&self) -> Result<(config::File, PathBuf)> {
        let file = config::read(self.config.as_deref())?;
        let run_dir = file.run_dir.clone().unwrap_or_else(|| PathBuf::from("/run/shoal"));
        Ok((file, run_dir))
    }
}

impl Invite {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let (file, run_dir) = self.of.configuration()?;
        let key = keyfile::read(&file.key.clone().unwrap_or_else(keyfile::default_path))?;
        if run_dir.join("number").exists() {
            return Err(Fault::refused("this machine is a node: tokens are made on the front end"));
        }
        let mut daemon =
            client::Local::connect(&run_dir.join("shoal.sock")).map_err(|f| f.doing("is this the front end?"))?;
        self.is_free(&super::nodes::nodes(&mut daemon)?)?;
        let front = where_to_dial(self.address.clone(), &file)?;
        let token = Token::new(&front, self.number.map(NodeId), self.name.as_deref())?;
        let Invite { life, number, name, from, any_port, wait, .. } = self;
        let waiting = Invitation { run_dir, life, number, name, from, any_port };
        if wait {
            log::to_stderr();
            let inviter = waiting.open(&token, key)?;
            print(&token, life)?;
            return waiting.wait(inviter);
        }
        waiting.begin(&token, &key)?;
        print(&token, life)?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Invite {
    /// # Errors
    /// `Refused` for a number or a name that a node has.
    fn is_free(&self, rows: &[NodeRow]) -> Result<()> {
        let has_number = |row: &&NodeRow| Some(row.node.0) == self.number && row.is_linked();
        if let Some(row) = rows.iter().find(has_number) {
            return Err(Fault::refused(format!("node {} has joined already, from {}", row.node, row.address)));
        }
        let has_name = |row: &&NodeRow| Some(&row.name) == self.name.as_ref() && Some(row.node.0) != self.number;
        match rows.iter().find(has_name) {
            Some(row) => Err(Fault::refused(format!("node {} is called {} already", row.node, row.name))),
            None => Ok(()),
        }
    }
}

/// The token alone is standard output.
fn print(token: &Token, life: u64) -> Result<()> {
    kern::own::complain(format!("for one machine, good for {life} s; there, as root: shoal node join TOKEN"));
    crate::print::out(&format!("{token}\n"))
}

impl Withdraw {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let (_, run_dir) = self.of.configuration()?;
        let count = join::withdraw(&run_dir)?;
        kern::own::complain(format!("tokens withdrawn: {count}"));
        Ok(ExitCode::SUCCESS)
    }
}

impl Invitation {
    /// The process that waits: says so on standard output, and then nothing more.
    pub(crate) fn run(self) -> Result<ExitCode> {
        log::to_stderr();
        kern::ns::set_name("shoal:invite")?;
        let mut key = [0; 32];
        let mut text = String::new();
        let mut input = std::io::stdin();
        let read = input.read_exact(&mut key).and_then(|()| input.read_to_string(&mut text));
        read.map_err(|e| Fault::io(&e, "read the cluster key and the token"))?;
        kern::ns::new_session()?;
        match self.open(&text.parse()?, key) {
            Ok(inviter) => {
                crate::print::out(&format!("{WAITS}\n"))?;
                let nobody = std::fs::File::open("/dev/null").map_err(|e| Fault::io(&e, "open /dev/null"))?;
                kern::ns::become_stream(&nobody.into(), 1)?;
                self.wait(inviter)
            }
            Err(fault) => {
                crate::print::out(&format!("{fault}\n"))?;
                Ok(ExitCode::FAILURE)
            }
        }
    }

    fn open(&self, token: &Token, key: [u8; 32]) -> Result<Inviter> {
        let Invitation { number, name, from, any_port, .. } = self;
        let from = from.map(|address| address.to_canonical());
        let invited = Invited { number: number.map(NodeId), name: name.clone(), from, any_port: *any_port };
        Inviter::open(&self.run_dir, token, key, invited)
    }

    fn wait(&self, mut inviter: Inviter) -> Result<ExitCode> {
        let outcome = inviter.wait(monotonic_us().saturating_add(self.life.saturating_mul(1_000_000)))?;
        match &outcome {
            Outcome::Joined { host, from } => tracing::info!(%from, host, "a machine has joined"),
            Outcome::Unconfirmed { host, from } => {
                tracing::warn!(%from, host, "a machine has the key, and does not say whether it has kept it")
            }
            Outcome::Expired => tracing::info!("a token has expired, unused"),
            Outcome::Withdrawn => tracing::info!("a token was withdrawn, unused"),
        }
        Ok(if matches!(outcome, Outcome::Joined { .. }) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Starts the process that waits, and returns when it does.
    fn begin(&self, token: &Token, key: &[u8; 32]) -> Result<()> {
        let failed = |e: std::io::Error| Fault::io(&e, "start who waits for the machine");
        let mut command = Command::new("/proc/self/exe");
        command.arg0("shoal").args(["invitation", "--life", &self.life.to_string(), "--run-dir"]).arg(&self.run_dir);
        command.args(self.number.iter().flat_map(|number| ["--number".to_owned(), number.to_string()]));
        command.args(self.name.iter().flat_map(|name| ["--name", name]));
        command.args(self.from.iter().flat_map(|from| ["--from".to_owned(), from.to_string()]));
        command.args(self.any_port.then_some("--any-port"));
        command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log_of(&self.run_dir)?);
        let mut child = command.spawn().map_err(failed)?;
        if let Some(mut input) = child.stdin.take() {
            input.write_all(key).and_then(|()| input.write_all(token.to_string().as_bytes())).map_err(failed)?;
        }
        let mut said = String::new();
        if let Some(mut output) = child.stdout.take() {
            output.read_to_string(&mut said).map_err(failed)?;
        }
        match said.trim_end() {
            WAITS => Ok(()),
            "" => Err(Fault::gone("who waits for the machine has ended at once")),
            why => Err(Fault::refused(why.to_owned())),
        }
    }
}

/// The log of tokens, beside the daemon's other logs.
fn log_of(run_dir: &Path) -> Result<std::fs::File> {
    let directory = run_dir.join("log");
    let failed = |e: std::io::Error| Fault::io(&e, format!("open the log {}/join", directory.display()));
    std::fs::create_dir_all(&directory).map_err(failed)?;
    OpenOptions::new().create(true).append(true).mode(0o600).open(directory.join("join")).map_err(failed)
}

/// The address of this machine at which a new one reaches the daemon.
fn where_to_dial(said: Option<String>, file: &config::File) -> Result<String> {
    let listen = config::setting(file.front.listen.as_deref(), "listen of [front]", address::listen)?;
    let listen = listen.unwrap_or_else(address::default_listen);
    if let Some(said) = said {
        return Ok(said);
    }
    let for_nodes = config::setting(file.node.front.as_deref(), "front of [node]", address::front)?;
    match for_nodes {
        Some(front) if front != EXAMPLE => Ok(front),
        _ if !listen.ip().is_unspecified() => Ok(listen.to_string()),
        _ => own_address().map(|own| SocketAddr::new(own, listen.port()).to_string()),
    }
}

/// The address that this machine has towards the rest of the world. Nothing is sent: to connect a UDP socket asks for the way alone.
fn own_address() -> Result<IpAddr> {
    // An address of RFC 5737, which belongs to nobody.
    let found = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        socket.connect("192.0.2.1:9")?;
        socket.local_addr()
    });
    let found = found.map_err(|e| Fault::io(&e, "find an address of this machine: name one by --address"))?;
    Ok(found.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_dials_what_nodes_dial() {
        let of = |listen: Option<&str>, front: Option<&str>| {
            let mut file = config::File::default();
            (file.front.listen, file.node.front) = (listen.map(Into::into), front.map(Into::into));
            where_to_dial(None, &file)
        };
        assert_eq!(of(None, Some("front.lab")).as_deref(), Ok("front.lab:7706"));
        assert_eq!(of(Some("10.0.0.1:99"), Some(EXAMPLE)).as_deref(), Ok("10.0.0.1:99"));
        assert_eq!(of(Some("10.0.0.1:99"), None).as_deref(), Ok("10.0.0.1:99"));
        assert_eq!(where_to_dial(Some("a:1".into()), &config::File::default()).as_deref(), Ok("a:1"));
        assert!(name("lab3").is_ok() && name("n3").is_err() && name("all").is_err());
    }
}
