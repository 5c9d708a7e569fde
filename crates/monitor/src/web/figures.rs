//! What the nodes' monitors say, for Prometheus.

use sample::ask::{Ask, Verb};
use sample::gather::{Address, From, Gather};
use sample::text::Form;
use sample::{words, Column, Layout, Sample};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use vocab::Result;
use wire::ask::NodeRow;

/// A round takes no longer: who has not answered then is marked.
const WITHIN_US: u64 = 100_000;
/// For so long what they have said is not asked for again, however many want it.
const FRESH: Duration = Duration::from_millis(500);

/// The monitors of all nodes, at this port of each.
pub(crate) struct Figures {
    port: u16,
    last: Mutex<Last>,
}

#[derive(Default)]
struct Last {
    /// Connections, which stay as long as the same nodes are meant.
    gather: Option<(Vec<From>, Gather)>,
    taken: Option<(Instant, Arc<Vec<Sample>>)>,
}

impl Figures {
    pub(crate) fn new(port: u16) -> Figures {
        Figures { port, last: Mutex::default() }
    }

    /// A sample of each of `nodes`; of one whose monitor is silent it has what the daemon knows of it.
    pub(crate) fn of(&self, nodes: &[NodeRow]) -> Arc<Vec<Sample>> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, samples)) = &last.taken {
            if at.elapsed() < FRESH {
                return samples.clone();
            }
        }
        // Where there are not descriptors enough, all are silent.
        let said = self.ask(&mut last, nodes).unwrap_or_default();
        let one = |row: &NodeRow| {
            let name = row.node.to_string();
            let found = said.iter().find(|sample| sample.node == name && sample.silent.is_none()).cloned();
            found.unwrap_or_else(|| from_daemon(row))
        };
        let samples = Arc::new(nodes.iter().map(one).collect::<Vec<_>>());
        last.taken = Some((Instant::now(), samples.clone()));
        samples
    }

    fn ask(&self, last: &mut Last, nodes: &[NodeRow]) -> Result<Vec<Sample>> {
        let from = |row: &NodeRow| {
            let ip: IpAddr = row.address.parse().ok()?;
            let address = Address::Tcp(SocketAddr::new(ip, self.port));
            Some(From { name: Some(row.node.to_string()), address })
        };
        let from: Vec<From> = nodes.iter().filter(|row| row.state != "down").filter_map(from).collect();
        let mut gather = match last.gather.take() {
            Some((known, gather)) if known == from => gather,
            _ => Gather::new(&from, WITHIN_US)?,
        };
        let (ask, mut text) = (Ask { form: Form::Words, verb: Verb::Sample, names: Vec::new(), depth: 0 }, Vec::new());
        gather.round(ask.line().as_bytes())?;
        gather.join(Form::Words, &mut text);
        last.gather = Some((from, gather));
        words::samples(&String::from_utf8_lossy(&text))
    }
}

/// What its beats have told.
fn from_daemon(row: &NodeRow) -> Sample {
    let mut sample = Sample::silent(&row.node.to_string(), "its monitor does not answer");
    if row.is_linked() {
        let columns = [("load", "load1"), ("memory", "MemTotal"), ("memory", "MemAvailable")];
        sample.layout =
            Arc::new(Layout { columns: columns.map(|(group, field)| Column::new(group, "", field)).into() });
        sample.values = vec![(f64::from(row.load) * 100.0).round() as u64, row.memory / 1024, row.memory_free / 1024];
    }
    sample
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::tests::node;

    #[test]
    fn a_node_without_a_monitor_has_what_the_daemon_knows() {
        let mut row = node(0, 1.25);
        row.address = "127.0.0.1".into();
        // Nobody listens there.
        let samples = Figures::new(1).of(&[row]);
        let text = sample::prometheus(&samples);
        for line in [
            "shoal_node_up{node=\"n0\"} 0",
            "shoal_node_load1{node=\"n0\"} 1.25",
            "shoal_node_memory_total_bytes{node=\"n0\"} 8589934592",
        ] {
            assert!(text.lines().any(|known| known == line), "{line}\n{text}");
        }
    }
}
