//! One line for each figure, and whether its bar was met.

/// What was measured, what the local equivalent took, and the most that either may be (or the least).
pub(crate) struct Line<'a> {
    pub(crate) name: &'a str,
    /// In `unit`.
    pub(crate) figure: Spread,
    pub(crate) local: Option<Local>,
    pub(crate) unit: &'a str,
    pub(crate) bar: Bar,
}

/// The local equivalent.
#[derive(Clone, Copy)]
pub(crate) struct Local {
    pub(crate) figure: Spread,
    /// Of the figure to this one: of the two of a pair where they were measured in pairs.
    pub(crate) ratio: Spread,
}

/// The most that a figure may be, or the least.
#[derive(Clone, Copy)]
pub(crate) enum Bar {
    /// In the figure's unit.
    Figure(f64),
    /// As a multiple of the local equivalent.
    Ratio(f64),
    /// The figure is to be so much at least.
    Least(f64),
    /// It is told, not judged.
    None,
}

/// Several runs of the same: the middle one, and between what the middle half of them lies.
#[derive(Clone, Copy)]
pub(crate) struct Spread {
    pub(crate) middle: f64,
    low: f64,
    high: f64,
    runs: usize,
}

impl Spread {
    /// Of none, all are no numbers.
    pub(crate) fn of(mut values: Vec<f64>) -> Spread {
        values.sort_by(f64::total_cmp);
        let at = |quarters: usize| {
            let place = (values.len().saturating_sub(1) * quarters + 2) / 4;
            values.get(place).copied().unwrap_or(f64::NAN)
        };
        Spread { middle: at(2), low: at(1), high: at(3), runs: values.len() }
    }

    /// Of one run.
    pub(crate) fn one(value: f64) -> Spread {
        Spread::of(vec![value])
    }
}

impl Local {
    /// What was measured in turn: on each side as many, the first with the first.
    pub(crate) fn pairs(figures: &[f64], locals: &[f64]) -> Local {
        let ratios = figures.iter().zip(locals).map(|(figure, local)| figure / local).collect();
        Local { figure: Spread::of(locals.to_vec()), ratio: Spread::of(ratios) }
    }
}

/// Above [`spread`].
const SPREADS: &str = "middle half of the figures, of the ratios, runs";

pub(crate) fn head() {
    let none = "";
    println!("{none:<44} {:>12} {:>12} {:>8} {:>10}  {none:6} {SPREADS}", "shoal", "local", "ratio", "bar");
}

/// Prints it; false when its bar is missed.
pub(crate) fn print(line: &Line) -> bool {
    let ratio = line.local.map(|local| local.ratio.middle);
    let (met, bar) = match line.bar {
        Bar::Figure(most) => (line.figure.middle <= most, format!("{most} {}", line.unit)),
        Bar::Ratio(most) => (ratio.is_some_and(|r| r <= most), format!("{most:.2} x")),
        Bar::Least(least) => (line.figure.middle >= least, format!(">= {least}")),
        Bar::None => (true, "-".into()),
    };
    let figure = |value: f64| format!("{value:.2} {}", line.unit);
    let verdict = match line.bar {
        Bar::None => "",
        _ if met => "met",
        _ => "MISSED",
    };
    println!(
        "{:<44} {:>12} {:>12} {:>8} {:>10}  {verdict:6} {}",
        line.name,
        figure(line.figure.middle),
        line.local.map_or_else(|| "-".into(), |local| figure(local.figure.middle)),
        ratio.map_or_else(|| "-".into(), |r| format!("{r:.2}")),
        bar,
        spread(line),
    );
    met
}

fn spread(line: &Line) -> String {
    let Spread { low, high, runs, .. } = line.figure;
    match (runs, line.local.map(|local| local.ratio)) {
        (0 | 1, _) => String::new(),
        (_, None) => format!("{low:.2}-{high:.2}, {runs}"),
        (_, Some(ratio)) => format!("{low:.2}-{high:.2}, {:.2}-{:.2}, {runs}", ratio.low, ratio.high),
    }
}

/// A bar that could not be measured is missed.
pub(crate) fn print_failed(name: &str, why: &str) -> bool {
    println!("{name:<44} MISSED: {why}");
    false
}

/// The middle one; of none, not a number.
pub(crate) fn median(values: Vec<f64>) -> f64 {
    Spread::of(values).middle
}
