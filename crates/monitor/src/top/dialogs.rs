//! What is asked and told over the table: the last line, the choice of a signal, the help.

use super::state::{Mode, State, Wanted, SIGNALS};
use crate::units::plain;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Widget};

const HELP: &[(&str, &str)] = &[
    ("arrows, PgUp, PgDn, Home, End", "select a process"),
    ("k", "send it a signal"),
    ("m", "move it to another node"),
    ("P M T p N U", "sort by CPU, memory, time, PID, node, user"),
    ("s, R", "the next order, and the other way round"),
    ("t", "tree: children below their parents"),
    ("/", "show only commands with this text, or a PID"),
    ("n, u", "show only these nodes (0-3,7), this user"),
    ("Esc", "show all"),
    ("[ ]", "nodes up and down"),
    ("q, Ctrl-C", "quit"),
];

pub(crate) fn last_line(state: &State) -> Line<'static> {
    let typed = |what: String, text: &str| {
        let cursor = Span::styled(" ", Style::new().add_modifier(Modifier::REVERSED));
        Line::from(vec![Span::raw(format!("{what}: {}", plain(text))), cursor])
    };
    match &state.mode {
        Mode::Line { wanted, text } => {
            let what = match wanted {
                Wanted::Text => "show only".into(),
                Wanted::Nodes => "only nodes (0-3,7; nothing: all)".into(),
                Wanted::User => "only the user (nothing: all)".into(),
                Wanted::Goal(who) => format!("move {} ({}) to node", who.pid, short(state.command(who.pid))),
            };
            typed(what, text)
        }
        _ if !state.notice.is_empty() => Line::from(plain(&state.notice)),
        _ => Line::from("h help  q quit  k signal  m move  t tree  / text  n nodes  u user  s sort"),
    }
}

fn short(command: &str) -> String {
    plain(command).chars().take(24).collect()
}

/// The box that is over the table, if there is one.
pub(crate) fn over(state: &State, area: Rect, out: &mut Buffer) {
    match &state.mode {
        Mode::Table | Mode::Line { .. } => {}
        Mode::Help => {
            let lines = HELP.iter().map(|(keys, what)| Line::from(format!(" {keys:<30} {what}"))).collect();
            show(" keys ".into(), lines, area, out);
        }
        Mode::Signal { who, at } => {
            let pid = who.pid;
            let line = |(number, sig): (usize, &vocab::Sig)| {
                let style = if number == *at { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
                Line::styled(format!(" {} {:<9} {:>2} ", number + 1, sig.to_string(), sig.number()), style)
            };
            let lines = SIGNALS.iter().enumerate().map(line).collect();
            show(format!(" signal for {pid} ({}) ", short(state.command(pid))), lines, area, out);
        }
    }
}

fn show(title: String, lines: Vec<Line<'static>>, area: Rect, out: &mut Buffer) {
    let widest = lines.iter().map(Line::width).max().unwrap_or(0).max(title.chars().count()) as u16;
    let (width, height) = ((widest + 3).min(area.width), (lines.len() as u16 + 2).min(area.height));
    let place = Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    Clear.render(place, out);
    let frame = Block::bordered().title(title).border_set(ASCII);
    let inner = frame.inner(place);
    frame.render(place, out);
    for (y, line) in (inner.y..inner.bottom()).zip(&lines) {
        out.set_line(inner.x, y, line, inner.width);
    }
}

/// A frame that every terminal has.
const ASCII: ratatui::symbols::border::Set = ratatui::symbols::border::Set {
    top_left: "+",
    top_right: "+",
    bottom_left: "+",
    bottom_right: "+",
    vertical_left: "|",
    vertical_right: "|",
    horizontal_top: "-",
    horizontal_bottom: "-",
};
