//! What `shoal top` looks like.

use super::dialogs;
use super::order::Sort;
use super::state::State;
use crate::picture::{used, Process};
use crate::tree::branch;
use crate::units::{bytes, cpu_time, plain};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use std::collections::VecDeque;
use wire::ask::NodeRow;

/// What bars and graphs are made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looks {
    /// The locale has more than ASCII.
    pub(crate) wide: bool,
    pub(crate) colour: bool,
}

impl Looks {
    /// As the environment wants it: LC_ALL, LC_CTYPE, LANG (locale(7)); NO_COLOR.
    pub(crate) fn from_environment() -> Looks {
        let said = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let locale = said("LC_ALL").or_else(|| said("LC_CTYPE")).or_else(|| said("LANG")).unwrap_or_default();
        let wide = locale.to_lowercase().replace('-', "").contains("utf8");
        Looks { wide, colour: said("NO_COLOR").is_none() }
    }

    fn style(self, colour: Color) -> Style {
        if self.colour {
            Style::new().fg(colour)
        } else {
            Style::new()
        }
    }

    /// A bar of this share, 0 to 1: green, yellow from 60 %, red from 85 %.
    fn bar(self, share: f32, width: usize) -> Vec<Span<'static>> {
        let full = ((share.clamp(0.0, 1.0) * width as f32).round() as usize).min(width);
        let (on, off) = if self.wide { ("█", "░") } else { ("#", ".") };
        let colour = match share {
            share if share >= 0.85 => Color::Red,
            share if share >= 0.6 => Color::Yellow,
            _ => Color::Green,
        };
        vec![
            Span::styled(on.repeat(full), self.style(colour)),
            Span::styled(off.repeat(width - full), self.style(Color::DarkGray)),
        ]
    }

    /// The newest figures as a graph, one column each; `most` is as high as it goes.
    fn graph(self, all: &VecDeque<f32>, most: f32, width: usize) -> String {
        const WIDE: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        const NARROW: [char; 9] = [' ', '_', '_', '.', '-', '-', '=', '^', '#'];
        let steps = if self.wide { WIDE } else { NARROW };
        let column = |figure: &f32| {
            let step = (figure / most.max(0.01) * 8.0).ceil();
            // Something is seen of the least that there is.
            steps[if *figure > 0.0 { step.clamp(1.0, 8.0) as usize } else { 0 }]
        };
        let newest: String = all.iter().skip(all.len().saturating_sub(width)).map(column).collect();
        format!("{newest:>width$}")
    }
}

/// How many lines nodes and processes get of a screen of this height.
fn heights(height: u16, nodes: usize) -> (u16, u16) {
    // The first line, two headings, the last line.
    let free = height.saturating_sub(4);
    let nodes = (nodes as u16).clamp(1, (free / 3).max(1));
    (nodes, free.saturating_sub(nodes))
}

/// How many lines of processes fit.
pub(crate) fn page(area: Rect, state: &State) -> usize {
    heights(area.height, state.picture.nodes.len()).1.into()
}

/// Draws everything; [`State::fit`] has been told the page.
pub(crate) fn draw(state: &State, looks: Looks, area: Rect, out: &mut Buffer) {
    if area.width < 20 || area.height < 6 {
        out.set_line(area.x, area.y, &Line::from("the terminal is too small"), area.width);
        return;
    }
    let (nodes, processes) = heights(area.height, state.picture.nodes.len());
    let part = |y: u16, height: u16| Rect { y: area.y + y, height, ..area };
    summary(state, looks, part(0, 1), out);
    node_lines(state, looks, part(1, nodes + 1), out);
    process_lines(state, looks, part(2 + nodes, processes + 1), out);
    let last = part(area.height - 1, 1);
    out.set_line(last.x, last.y, &dialogs::last_line(state), last.width);
    dialogs::over(state, Rect { height: area.height - 1, ..area }, out);
}

fn heading(out: &mut Buffer, area: Rect, text: &str) {
    let style = Style::new().add_modifier(Modifier::REVERSED);
    out.set_style(Rect { height: 1, ..area }, style);
    out.set_stringn(area.x, area.y, text, area.width.into(), style);
}

fn summary(state: &State, looks: Looks, area: Rect, out: &mut Buffer) {
    let picture = &state.picture;
    let of = |what: &str| picture.nodes.iter().filter(|node| node.state == what).count();
    let (up, silent, down) = (of("up"), of("silent"), of("down"));
    // In boot, error, or a state that root has set.
    let others = picture.nodes.len() - up - silent - down;
    let (cores, load) = picture
        .nodes
        .iter()
        .filter(|node| node.state == "up")
        .fold((0, 0.0), |(cores, load), node| (cores + node.cores, load + node.load));
    let mut line = vec![Span::styled("shoal top", Style::new().add_modifier(Modifier::BOLD))];
    line.push(format!("  nodes: {up} up").into());
    if others > 0 {
        line.push(Span::styled(format!(", {others} not up"), looks.style(Color::Yellow)));
    }
    if silent > 0 {
        line.push(Span::styled(format!(", {silent} silent"), looks.style(Color::Yellow)));
    }
    if down > 0 {
        line.push(Span::styled(format!(", {down} down"), looks.style(Color::Red)));
    }
    line.push(format!("  cores: {cores}  load: {load:.2}  processes: {}", picture.processes.len()).into());
    let loud = looks.style(Color::Red).add_modifier(Modifier::BOLD);
    let age = state.age().map(|age| format!("{} s old", age.as_secs()));
    if let Some(away) = &state.away {
        let age = age.map_or_else(String::new, |age| format!(" (this is {age})"));
        line = vec![Span::styled(format!("the daemon is away{age}: {}", plain(away)), loud)];
    } else if let Some(age) = age {
        line.push(Span::styled(format!("  {age}"), loud));
    }
    out.set_line(area.x, area.y, &Line::from(line), area.width);
}

/// What is left of a line's width goes to the graph and the bars.
struct Columns {
    bar: usize,
    graph: usize,
}

impl Columns {
    /// Without bars and graph a line has 39 characters.
    fn of(width: u16) -> Columns {
        let free = usize::from(width).saturating_sub(39);
        let bar = (free / 4).clamp(4, 20);
        Columns { bar, graph: free.saturating_sub(2 * bar).clamp(4, 100) }
    }
}

fn node_lines(state: &State, looks: Looks, area: Rect, out: &mut Buffer) {
    let Columns { bar, graph } = Columns::of(area.width);
    let memory = bar + 12;
    let (bars, graphs) = (bar + 6, graph);
    let title = format!(
        "{:<5} {:<6} {:<bars$} {:<graphs$} {:<memory$} {:>5}",
        "NODE", "STATE", "  LOAD", "HISTORY", "MEMORY", "PROCS"
    );
    heading(out, area, &title);
    let rows = usize::from(area.height) - 1;
    let first = state.first_node.min(state.picture.nodes.len().saturating_sub(rows));
    for (y, node) in (area.y + 1..).zip(state.picture.nodes.iter().skip(first).take(rows)) {
        out.set_line(area.x, y, &node_line(state, looks, node, (bar, graph)), area.width);
    }
}

fn node_line(state: &State, looks: Looks, node: &NodeRow, (bar, graph): (usize, usize)) -> Line<'static> {
    let cores = node.cores.max(1) as f32;
    let none = VecDeque::new();
    let history = state.picture.history.get(&node.node).map_or(&none, |history| &history.load);
    let most = history.iter().copied().fold(cores, f32::max);
    let stated = match node.state.as_str() {
        "up" => Style::new(),
        "down" => looks.style(Color::Red),
        _ => looks.style(Color::Yellow),
    };
    let mut line = vec![
        Span::raw(format!("{:<5} ", node.node.to_string())),
        Span::styled(format!("{:<6} ", node.state), stated),
        Span::raw(format!("{:>5.2} ", node.load)),
    ];
    line.extend(looks.bar(node.load / cores, bar));
    line.push(Span::styled(format!(" {} ", looks.graph(history, most, graph)), looks.style(Color::Cyan)));
    line.extend(looks.bar(used(node), bar));
    let memory = format!("{}/{}", bytes(node.memory.saturating_sub(node.memory_free)), bytes(node.memory));
    line.push(Span::raw(format!(" {memory:<11} {:>5}", node.processes)));
    Line::from(line)
}

fn process_lines(state: &State, looks: Looks, area: Rect, out: &mut Buffer) {
    let order = &state.order;
    let mark = |sort: Sort, name: &str| match (sort == order.sort, order.reverse) {
        (true, false) => format!("{name}*"),
        (true, true) => format!("{name}-"),
        _ => name.to_string(),
    };
    let title = format!(
        "{:>7} {:<6} {:<8} S {:>6} {:>6} {:>9} COMMAND",
        mark(Sort::Pid, "PID"),
        mark(Sort::Node, "NODE"),
        mark(Sort::User, "USER"),
        mark(Sort::Cpu, "CPU%"),
        mark(Sort::Memory, "MEM"),
        mark(Sort::Time, "TIME")
    );
    heading(out, area, &(title + &filtered(state)));
    let rows = usize::from(area.height) - 1;
    let here = state.shown.iter().enumerate().skip(state.top).take(rows);
    for (y, (at, (depth, one))) in (area.y + 1..).zip(here) {
        out.set_line(area.x, y, &process_line(state, *depth, one), area.width);
        let row = Rect { y, height: 1, ..area };
        match () {
            () if at == state.at => out.set_style(row, Style::new().add_modifier(Modifier::REVERSED)),
            () if one.stale => out.set_style(row, looks.style(Color::DarkGray).add_modifier(Modifier::DIM)),
            () => {}
        }
    }
    if state.shown.is_empty() {
        let why = if state.picture.samples == 0 { "asking the daemon" } else { "no processes" };
        out.set_stringn(area.x, area.y + 1, format!("        {why}"), area.width.into(), Style::new());
    }
}

fn process_line(state: &State, depth: usize, one: &Process) -> Line<'static> {
    let row = &one.row;
    let user: String = state.user(row.uid).chars().take(8).collect();
    let node = row.node.to_string() + if one.stale { "?" } else { "" };
    Line::from(format!(
        "{:>7} {node:<6} {user:<8} {} {:>6.1} {:>6} {:>9} {}{}",
        row.pid.to_string(),
        row.state,
        one.cpu,
        bytes(row.rss_kb * 1024),
        cpu_time(row.cpu_ms),
        branch(depth),
        plain(&row.command)
    ))
}

/// What is left out, beside the heading.
fn filtered(state: &State) -> String {
    let filter = &state.order.filter;
    if filter.is_empty() {
        return String::new();
    }
    let mut text = format!("  [{} of {}", state.shown.len(), state.picture.processes.len());
    if !filter.text.is_empty() {
        text += &format!(", /{}", plain(&filter.text));
    }
    if let Some(nodes) = &filter.nodes {
        let nodes: Vec<String> = nodes.nodes().iter().map(ToString::to_string).collect();
        text += &format!(", {}", nodes.join(" "));
    }
    if !filter.user.is_empty() {
        text += &format!(", user {}", plain(&filter.user));
    }
    text + "]"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::tests::{node, row};
    use crate::picture::Sample;
    use crate::top::keys::Key;
    use std::collections::HashMap;
    use std::time::Duration;
    use vocab::NodeId;

    const PLAIN: Looks = Looks { wide: false, colour: false };

    fn state(nodes: i32, processes: i32) -> State {
        let mut state = State::new(HashMap::from([(0, "root".to_string())]), Duration::from_secs(1));
        for at in 0..3u64 {
            let nodes = (0..nodes).map(|number| node(number, number as f32)).collect();
            let rows = (1..=processes).map(|pid| row(pid, pid % 2, at * pid as u64 * 10)).collect();
            state.take(Sample { at_ms: at * 1000, nodes, rows, missing: vec![NodeId(1)] });
        }
        state
    }

    fn drawn(state: &mut State, width: u16, height: u16, looks: Looks) -> Vec<String> {
        let area = Rect { x: 0, y: 0, width, height };
        state.fit(page(area, state));
        let mut out = Buffer::empty(area);
        draw(state, looks, area, &mut out);
        (0..height)
            .map(|y| (0..width).map(|x| out[(x, y)].symbol()).collect::<String>().trim_end().to_string())
            .collect()
    }

    #[test]
    fn eighty_by_twenty_four() {
        let lines = drawn(&mut state(3, 30), 80, 24, PLAIN);
        assert_eq!(lines[0], "shoal top  nodes: 3 up  cores: 6  load: 3.00  processes: 30");
        assert_eq!(lines[1], "NODE  STATE    LOAD           HISTORY               MEMORY                 PROCS");
        assert_eq!(
            lines[3],
            "n1    up      1.00 #####.....                   --- ###....... 2.0Gi/8.0Gi     1".to_string()
        );
        assert_eq!(lines[5], "    PID NODE   USER     S  CPU%*    MEM      TIME COMMAND");
        assert_eq!(lines[6], "     30 n0     root     S   30.0  100Ki     00:00 c30");
        assert!(lines[22].starts_with("      "), "the last process: {}", lines[22]);
        assert!(lines[23].contains("help") && lines[23].contains("quit"), "{}", lines[23]);
        assert!(lines.iter().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn two_hundred_by_fifty() {
        let mut state = state(40, 100);
        let lines = drawn(&mut state, 200, 50, Looks { wide: true, colour: true });
        assert_eq!(lines.iter().filter(|line| line.contains("8.0Gi")).count(), 15, "a third of the screen is nodes");
        assert!(
            lines[3].contains('▄') && lines[3].contains('░') && lines[4].contains('█'),
            "{}\n{}",
            lines[3],
            lines[4]
        );
        assert_eq!(lines.iter().filter(|line| line.contains("root")).count(), 31);
        assert!(lines.iter().any(|line| line.contains("n1?")), "who is silent is marked");
        for _ in 0..39 {
            state.press(Key::Char(']'));
        }
        assert!(drawn(&mut state, 200, 50, PLAIN)[16].starts_with("n39 "), "nodes can be seen all");
    }

    #[test]
    fn any_size_and_any_state_can_be_drawn() {
        let mut states = [State::new(HashMap::new(), Duration::from_secs(1)), state(0, 0), state(100, 1000)];
        states[0].away = Some("no daemon\x1b[2J".into());
        for state in &mut states {
            for keys in ["", "h", "k", "m2", "/x", "t"] {
                for c in keys.chars() {
                    state.press(Key::Char(c));
                }
                for (width, height) in [(1, 1), (19, 5), (20, 6), (80, 24), (60, 100), (300, 7), (500, 200)] {
                    let lines = drawn(state, width, height, PLAIN);
                    assert!(lines.iter().all(|line| !line.contains('\x1b')));
                }
                state.press(Key::Escape);
            }
        }
        assert!(drawn(&mut states[0], 80, 24, PLAIN)[0].starts_with("the daemon is away: no daemon?[2J"));
    }

    #[test]
    fn dialogs_say_what_they_do() {
        let mut state = state(2, 5);
        state.press(Key::Char('k'));
        let lines = drawn(&mut state, 80, 24, PLAIN).join("\n");
        assert!(lines.contains("SIGTERM") && lines.contains("SIGUSR2"), "{lines}");
        state.press(Key::Escape);
        state.press(Key::Char('h'));
        let lines = drawn(&mut state, 80, 24, PLAIN).join("\n");
        assert!(lines.contains("move it to another node"), "{lines}");
        state.press(Key::Escape);
        state.press(Key::Char('m'));
        state.press(Key::Char('1'));
        assert!(drawn(&mut state, 80, 24, PLAIN)[23].contains("to node: 1"));
    }
}
