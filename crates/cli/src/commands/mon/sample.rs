//! `shoal mon sample`: samples now.

use crate::commands::{nodes, Daemon};
use crate::print;
use clap::Args;
use sample::ask::{Ask, Verb};
use sample::gather::{Address, From, Gather};
use sample::text::{self, Form};
use sample::words;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;
use vocab::{Fault, NodeId, NodeSet, Result};

/// Take a sample of each node and print it
#[derive(Args, Debug)]
pub(crate) struct Sample {
    /// What to sample, as `cpu`, `cpu.all`, `memory.Mem*`, `net.*.rx_bytes` [default: everything]
    names: Vec<String>,
    /// Print a JSON object on a line
    #[arg(long, conflicts_with = "words")]
    json: bool,
    /// Print an s-expression on a line
    #[arg(long)]
    words: bool,
    #[command(flatten)]
    whom: Whom,
}

/// Whose samples.
#[derive(Args, Debug)]
pub(super) struct Whom {
    /// Only of these nodes, as `0-3,7`, or names
    #[arg(short, long, value_name = "NODES", value_parser = super::super::node_names::nodes, conflicts_with = "from")]
    nodes: Option<NodeSet>,
    /// Of these monitors or concentrators instead: [NAME=]ADDRESS[:PORT], or the path of a socket
    #[arg(long, value_name = "[NAME=]ADDRESS", value_parser = super::concentrate::from)]
    from: Vec<From>,
    /// Of this machine only
    #[arg(long, conflicts_with_all = ["from", "nodes"])]
    here: bool,
    /// Who has not answered within this time is marked
    #[arg(long, value_name = "TIME", value_parser = crate::config::span, default_value = "100ms")]
    within: Duration,
    #[command(flatten)]
    daemon: Daemon,
}

impl Sample {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let form = if self.json { Form::Json } else { Form::Words };
        let ask = Ask { form, verb: Verb::Sample, names: self.names, depth: 0 };
        // What it would say of each of them is said here, once.
        Ask::read(ask.line().as_bytes()).map_err(|(_, why)| Fault::refused(why))?;
        let mut gather = self.whom.gather()?;
        let (text, silent) = said(&mut gather, &ask)?;
        match self.json || self.words {
            true => print::out(&(text.clone() + "\n"))?,
            false => print::out(&lines(&words::samples(&text)?))?,
        }
        let text = match form {
            Form::Words => text,
            Form::Json if ask.names.is_empty() || silent == gather.len() => return Ok(status(silent < gather.len())),
            Form::Json => said(&mut gather, &Ask { form: Form::Words, ..ask.clone() })?.0,
        };
        let answered = silent < gather.len();
        Ok(status(answered && !complain_of_unknown(&ask.names, &words::samples(&text)?)))
    }
}

pub(super) fn status(good: bool) -> ExitCode {
    if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// What all answer to a question, and how many do not.
fn said(gather: &mut Gather, ask: &Ask) -> Result<(String, usize)> {
    gather.round(ask.line().as_bytes())?;
    let (silent, mut out) = (gather.silent(), Vec::new());
    gather.join(ask.form, &mut out);
    Ok((String::from_utf8_lossy(&out).into_owned(), silent))
}

/// Names that mean no number of anybody.
fn unknown<'n>(names: &'n [String], samples: &[sample::Sample]) -> Vec<&'n str> {
    let columns = samples.iter().flat_map(|one| &one.layout.columns);
    names.iter().map(String::as_str).filter(|name| !columns.clone().any(|column| column.is_meant(name))).collect()
}

/// Says which names mean no number of anybody: are there any?
pub(super) fn complain_of_unknown(names: &[String], samples: &[sample::Sample]) -> bool {
    let unknown = unknown(names, samples);
    for name in &unknown {
        kern::own::complain(format!("{name} is no number of any of them"));
    }
    !unknown.is_empty()
}

impl Whom {
    /// Those who are to be asked.
    ///
    /// # Errors
    /// As of the daemon; `Refused` for a node that there is not.
    pub(super) fn gather(&self) -> Result<Gather> {
        let limit_us = u64::try_from(self.within.as_micros()).unwrap_or(u64::MAX);
        Gather::new(&self.all()?, limit_us)
    }

    fn all(&self) -> Result<Vec<From>> {
        if !self.from.is_empty() {
            return Ok(self.from.clone());
        }
        if self.here {
            let address = Address::Unix(self.daemon.beside(super::SOCKET));
            return Ok(vec![From { name: None, address }]);
        }
        let mut daemon = self.daemon.connect()?;
        let wanted: Option<Vec<NodeId>> = self.nodes.as_ref().map(|set| set.nodes().to_vec());
        if let Some(wanted) = &wanted {
            nodes::all_known(&mut daemon, wanted.iter().copied())?;
        }
        let rows = nodes::nodes(&mut daemon)?;
        let meant = rows.into_iter().filter(|row| wanted.as_ref().is_none_or(|wanted| wanted.contains(&row.node)));
        let from = meant.filter_map(|row| {
            let ip: IpAddr = row.address.parse().ok()?;
            let address = Address::Tcp(SocketAddr::new(ip, crate::address::MON_PORT));
            Some(From { name: Some(row.node.to_string()), address })
        });
        Ok(from.collect())
    }
}

/// One number on a line.
fn lines(samples: &[sample::Sample]) -> String {
    let mut out = Vec::new();
    for one in samples {
        if let Some(why) = &one.silent {
            out.extend_from_slice(format!("{} is silent: {why}\n", one.node).as_bytes());
        }
        for (column, value) in one.layout.columns.iter().zip(&one.values) {
            let key = if column.key.is_empty() { String::new() } else { format!(".{}", column.key) };
            out.extend_from_slice(format!("{} {}{key}.{} ", one.node, column.group, column.field).as_bytes());
            text::number(*value, column.unit.has_point(), &mut out);
            out.push(b'\n');
        }
    }
    // Names come from other machines.
    String::from_utf8_lossy(&out).lines().map(|line| kern::own::plain(line) + "\n").collect()
}
