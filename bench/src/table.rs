//! One line for each figure, and whether its bar was met.

/// What was measured, what the local equivalent took, and the most that either may be.
pub(crate) struct Line<'a> {
    pub(crate) name: &'a str,
    /// In `unit`.
    pub(crate) figure: f64,
    pub(crate) local: Option<f64>,
    pub(crate) unit: &'a str,
    pub(crate) bar: Bar,
}

/// The most that a figure may be.
#[derive(Clone, Copy)]
pub(crate) enum Bar {
    /// In the figure's unit.
    Figure(f64),
    /// As a multiple of the local equivalent.
    Ratio(f64),
    /// It is told, not judged.
    None,
}

pub(crate) fn head() {
    println!("{:<44} {:>12} {:>12} {:>8} {:>10}", "", "shoal", "local", "ratio", "bar");
}

/// Prints it; false when its bar is missed.
pub(crate) fn print(line: &Line) -> bool {
    let ratio = line.local.map(|local| line.figure / local);
    let (met, bar) = match line.bar {
        Bar::Figure(most) => (line.figure <= most, format!("{most} {}", line.unit)),
        Bar::Ratio(most) => (ratio.is_some_and(|r| r <= most), format!("{most:.2} x")),
        Bar::None => (true, "-".into()),
    };
    let figure = |value: f64| format!("{value:.2} {}", line.unit);
    println!(
        "{:<44} {:>12} {:>12} {:>8} {:>10}  {}",
        line.name,
        figure(line.figure),
        line.local.map_or_else(|| "-".into(), figure),
        ratio.map_or_else(|| "-".into(), |r| format!("{r:.2}")),
        bar,
        match line.bar {
            Bar::None => "",
            _ if met => "met",
            _ => "MISSED",
        }
    );
    met
}

/// A bar that could not be measured is missed.
pub(crate) fn print_failed(name: &str, why: &str) -> bool {
    println!("{name:<44} MISSED: {why}");
    false
}

/// The middle one; of none, not a number.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
