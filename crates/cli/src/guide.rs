//! The chapters of docs/guide.md as text for a terminal.
//!
//! A chapter begins with a line `## Topic: title`. Of Markdown the guide has headings, paragraphs, lists, tables, indented examples, `code`, **bold** and
//! links; nothing else is understood here.

const GUIDE: &str = include_str!("../../../docs/guide.md");

/// A first column of a table that is wider has lines of its own.
const WIDEST_FIRST: usize = 28;

/// A chapter: `shoal help TOPIC` shows one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chapter {
    topic: &'static str,
    /// The subject of the chapter, in a few words.
    pub(crate) title: &'static str,
    text: &'static str,
}

/// All chapters, in the order of the guide.
pub(crate) fn chapters() -> impl Iterator<Item = Chapter> {
    GUIDE.split("\n## ").skip(1).filter_map(|part| {
        let (heading, text) = part.split_once('\n')?;
        let (topic, title) = heading.split_once(": ")?;
        Some(Chapter { topic, title, text: text.trim() })
    })
}

/// The chapter of a topic, or the only one whose topic begins so.
pub(crate) fn chapter(word: &str) -> Option<Chapter> {
    let word = word.to_lowercase();
    let mut begin = chapters().filter(|chapter| chapter.topic().starts_with(&word));
    let (first, second) = (begin.next()?, begin.next());
    second.is_none().then_some(first)
}

/// The first chapter in which a command of shoal is named.
pub(crate) fn naming(command: &str) -> Option<Chapter> {
    let call = format!("shoal {command}");
    let follows = |text: &str| !text.starts_with(|c: char| c.is_alphanumeric() || c == '-' || c == '_');
    chapters()
        .find(|chapter| chapter.text.match_indices(&call).any(|(at, _)| follows(&chapter.text[at + call.len()..])))
}

impl Chapter {
    pub(crate) fn topic(&self) -> String {
        self.topic.to_lowercase()
    }

    /// The chapter as plain text, its lines `width` characters long at most where they are not examples.
    pub(crate) fn rendered(&self, width: usize) -> String {
        let mut text = format!("{}: {}\n", self.topic.to_uppercase(), self.title);
        for block in blocks(self.text) {
            text.push('\n');
            block.render(width, &mut text);
        }
        text
    }
}

/// Lines that belong together; between two blocks is an empty line.
#[derive(Debug, PartialEq)]
enum Block<'a> {
    /// Printed as it is.
    Example(Vec<&'a str>),
    /// Paragraphs and items of a list, each with its mark (`- `, or nothing) and its lines.
    Prose(Vec<(&'a str, String)>),
    /// The cells of each row: the heading, dashes, and the others.
    Table(Vec<Vec<String>>),
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    let mut apart = true;
    for line in text.lines() {
        if line.is_empty() {
            apart = true;
            continue;
        }
        add(line, apart, &mut blocks);
        apart = false;
    }
    blocks
}

/// `apart`: behind an empty line.
fn add<'a>(line: &'a str, apart: bool, blocks: &mut Vec<Block<'a>>) {
    let mark = if line.starts_with("- ") { "- " } else { "" };
    let is_example = line.starts_with("    ");
    match blocks.last_mut() {
        Some(Block::Table(rows)) if !apart && line.starts_with('|') => return rows.push(cells(line)),
        // An empty line within an example is part of it.
        Some(Block::Example(lines)) if is_example => {
            lines.extend(apart.then_some(""));
            return lines.push(line);
        }
        Some(Block::Prose(items)) if !apart && !is_example && !line.starts_with('|') => {
            match items.last_mut() {
                Some((_, text)) if mark.is_empty() => *text += &format!(" {}", line.trim()),
                _ => items.push((mark, plain(&line[mark.len()..]))),
            }
            return;
        }
        _ => {}
    }
    blocks.push(match line {
        _ if is_example => Block::Example(vec![line]),
        _ if line.starts_with('|') => Block::Table(vec![cells(line)]),
        _ => Block::Prose(vec![(mark, line[mark.len()..].to_owned())]),
    });
}

fn cells(row: &str) -> Vec<String> {
    row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
}

impl Block<'_> {
    fn render(&self, width: usize, text: &mut String) {
        match self {
            Block::Example(lines) => lines.iter().for_each(|line| *text += &format!("{line}\n")),
            Block::Prose(items) => items.iter().for_each(|(mark, item)| wrap(&plain(item), mark, width, text)),
            Block::Table(table) => {
                // Between them is a line of dashes.
                let (heading, rows) = (table.first(), table.get(2..).unwrap_or_default());
                match first_column(rows) {
                    Some(first) => rows.iter().for_each(|row| beside(row, first, width, text)),
                    None => below(heading.map_or(&[], Vec::as_slice), rows, width, text),
                }
            }
        }
    }
}

/// How wide the first of two columns is, where the second one can stand beside it.
fn first_column(rows: &[Vec<String>]) -> Option<usize> {
    let widths = rows.iter().map(|row| row.first().map_or(0, |cell| plain(cell).chars().count()));
    widths.max().filter(|width| *width <= WIDEST_FIRST && rows.iter().all(|row| row.len() == 2))
}

/// Two cells side by side.
fn beside(row: &[String], first: usize, width: usize, text: &mut String) {
    let [name, meaning] = row else { return };
    wrap(&plain(meaning), &format!("  {:first$}  ", plain(name)), width, text);
}

/// Each cell in lines of its own, below the first of its row and behind the heading of its column.
fn below(heading: &[String], rows: &[Vec<String>], width: usize, text: &mut String) {
    for (at, row) in rows.iter().enumerate() {
        text.extend((at > 0).then_some('\n'));
        for (i, cell) in row.iter().enumerate() {
            let name = heading.get(i).filter(|_| i > 0).map_or("  ".into(), |name| format!("    {name}: "));
            wrap(&plain(cell), &name, width, text);
        }
    }
}

/// The words of a paragraph in lines; `mark` stands before the first line, and as much space before the others.
fn wrap(paragraph: &str, mark: &str, width: usize, text: &mut String) {
    let mut line = mark.to_owned();
    let mut is_new = true;
    for word in paragraph.split_whitespace() {
        if !is_new && line.chars().count() + 1 + word.chars().count() > width {
            *text += &format!("{line}\n");
            line = " ".repeat(mark.chars().count());
            is_new = true;
        }
        line += if is_new { "" } else { " " };
        line += word;
        is_new = false;
    }
    *text += &format!("{line}\n");
}

/// Without the signs of code, bold and links; a link is its text.
fn plain(text: &str) -> String {
    let mut left = text.replace("**", "").replace('`', "");
    while let Some((before, link)) = left.split_once('[').filter(|(_, link)| link.contains("](")) {
        let Some((label, target)) = link.split_once("](") else { break };
        let rest = target.split_once(')').map_or("", |(_, rest)| rest);
        left = format!("{before}{label}{rest}");
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_has_its_chapters() {
        let topics: Vec<String> = chapters().map(|chapter| chapter.topic()).collect();
        let all = "running seeing control moving checkpoints files batch parallel python failures";
        assert_eq!(topics.join(" "), all);
        assert_eq!(chapter("fail").map(|chapter| chapter.topic()).as_deref(), Some("failures"));
        assert!(chapter("p").is_none(), "two begin so");
        assert!(chapter("nonsense").is_none());
        assert_eq!(naming("move").map(|chapter| chapter.topic()).as_deref(), Some("moving"));
        assert_eq!(naming("nodes").map(|chapter| chapter.topic()).as_deref(), Some("seeing"));
        assert!(naming("nod").is_none());
    }

    #[test]
    fn nothing_of_markdown_is_left_and_no_line_of_prose_is_too_long() {
        for chapter in chapters() {
            for line in chapter.rendered(72).lines().filter(|line| !line.starts_with("    ")) {
                let is_word = line.trim_start().split_once(' ').is_none();
                assert!(line.chars().count() <= 72 || is_word, "{}: {line}", chapter.topic());
                assert!(!line.contains("](") && !line.contains('`') && !line.contains("**"), "{line}");
            }
        }
    }

    /// The commands that a document tells its readers to call: `shoal WORD` in code, and in lines of examples.
    fn called(text: &str) -> Vec<&str> {
        let mut called = Vec::new();
        for line in text.lines() {
            let starts: &[&str] =
                if line.starts_with("    ") { &["    ", "$ ", "; ", "| ", "sudo ", "`"] } else { &["`", "sudo "] };
            for (at, call) in line.match_indices("shoal ") {
                let word = line[at + call.len()..].split(|c: char| !c.is_alphanumeric() && c != '-').next();
                let is_command = |word: &&str| word.starts_with(|c: char| c.is_lowercase());
                let is_call = starts.iter().any(|start| line[..at].ends_with(start));
                called.extend(word.filter(is_command).filter(|_| is_call));
            }
        }
        called
    }

    #[test]
    fn documents_name_commands_that_there_are() {
        assert_eq!(
            called("`shoal run x`, shoal makes `sudo shoal top`, `shoal COMMAND`\n    $ shoal ps; shoal where 1"),
            ["run", "top", "ps", "where"]
        );
        let definition = crate::definition();
        let documents = [
            ("guide", GUIDE),
            ("admin", include_str!("../../../docs/admin.md")),
            ("README", include_str!("../../../README.md")),
        ];
        for (name, text) in documents {
            let words = called(text);
            assert!(words.len() > 10, "{name}: {words:?}");
            for word in words {
                assert!(definition.find_subcommand(word).is_some(), "{name}: there is no shoal {word}");
            }
        }
    }

    #[test]
    fn blocks_are_rendered() {
        let text = "One `two`\nthree [four](five.md).\n\n- a b\n  c\n- **d**\n\n    $ x | y\n\n    z\n\n| h | i |\n|---|---|\n| j | k l m |\n\n| h | i | n |\n|---|---|---|\n| j | k | l |\n| o | p | q |\n";
        let mut shown = String::new();
        for block in blocks(text) {
            block.render(12, &mut shown);
        }
        let wanted = "One two\nthree four.\n- a b c\n- d\n    $ x | y\n\n    z\n  j  k l m\n  j\n    i: k\n    n: l\n\n  o\n    i: p\n    n: q\n";
        assert_eq!(shown, wanted);
    }
}
