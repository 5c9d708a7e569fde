//! Samples as comma-separated values (RFC 4180): a line for each, a column for each number that any of them has.

use crate::layout::{Column, Layout, Sample};
use crate::text;
use std::collections::HashMap;
use std::sync::Arc;

/// Which columns there are: known before the first line is written.
#[derive(Debug, Default)]
pub struct Table {
    names: Vec<String>,
    places: HashMap<String, usize>,
    /// The last layout, and the places of its columns.
    layout: Option<(Arc<Layout>, Vec<usize>)>,
}

/// `cpu.0.user`
pub fn name(column: &Column) -> String {
    let Column { group, key, field, .. } = column;
    if key.is_empty() {
        format!("{group}.{field}")
    } else {
        format!("{group}.{key}.{field}")
    }
}

impl Table {
    /// Makes place for the columns of `layout` that are `wanted`.
    pub fn add(&mut self, layout: &Arc<Layout>, wanted: impl Fn(&Column) -> bool) {
        if self.layout.as_ref().is_some_and(|last| Arc::ptr_eq(&last.0, layout)) {
            return;
        }
        for column in layout.columns.iter().filter(|column| wanted(column)) {
            let name = name(column);
            if !self.places.contains_key(&name) {
                self.places.insert(name.clone(), self.names.len());
                self.names.push(name);
            }
        }
        self.layout = Some((layout.clone(), Vec::new()));
    }

    /// The first line: `time,node,silent`, then the columns.
    pub fn head(&self) -> String {
        let mut line = String::from("time,node,silent");
        for name in &self.names {
            line.push(',');
            line += &field(name);
        }
        line + "\n"
    }

    /// The line of a sample: its time in seconds since 1970, its node, why that is silent if it is, its numbers.
    pub fn line(&mut self, sample: &Sample) -> String {
        if self.layout.as_ref().is_none_or(|last| !Arc::ptr_eq(&last.0, &sample.layout) || last.1.is_empty()) {
            let place = |column: &Column| self.places.get(&name(column)).copied().unwrap_or(usize::MAX);
            let places = sample.layout.columns.iter().map(place).collect();
            self.layout = Some((sample.layout.clone(), places));
        }
        let mut cells = vec![String::new(); self.names.len()];
        let places = self.layout.iter().flat_map(|last| &last.1);
        for ((column, value), place) in sample.layout.columns.iter().zip(&sample.values).zip(places) {
            if let Some(cell) = cells.get_mut(*place) {
                let mut out = Vec::new();
                text::number(*value, column.unit.has_point(), &mut out);
                *cell = String::from_utf8_lossy(&out).into_owned();
            }
        }
        let time = match sample.time_us {
            0 => String::new(),
            us => format!("{}.{:06}", us / 1_000_000, us % 1_000_000),
        };
        let mut line = [time, field(&sample.node), field(sample.silent.as_deref().unwrap_or_default())].join(",");
        for cell in cells {
            line.push(',');
            line += &cell;
        }
        line + "\n"
    }
}

/// In quotes where it must be.
fn field(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_different_columns_share_a_table() {
        let sample = |node: &str, columns: Vec<Column>| {
            let values = (105..).take(columns.len()).collect();
            Sample { node: node.into(), time_us: 1_500_000, silent: None, layout: Arc::new(Layout { columns }), values }
        };
        let load = Column::new("load", "", "load1");
        let net = Column::new("net", "a,b", "rx_bytes");
        let samples =
            [sample("n0", vec![load.clone()]), sample("n1", vec![net, load]), Sample::silent("n2", "a \"b\"")];
        let mut table = Table::default();
        samples.iter().for_each(|one| table.add(&one.layout, |_| true));
        assert_eq!(table.head(), "time,node,silent,load.load1,\"net.a,b.rx_bytes\"\n");
        let lines: Vec<String> = samples.iter().map(|one| table.line(one)).collect();
        assert_eq!(lines, ["1.500000,n0,,1.05,\n", "1.500000,n1,,1.06,105\n", ",n2,\"a \"\"b\"\"\",,\n"]);
    }
}
