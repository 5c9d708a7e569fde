//! Reading Rust source as far as the rules need it: without comments and strings, paths, functions.

use std::fs;
use std::path::{Path, PathBuf};

/// A crate of the workspace.
pub(crate) struct Crate {
    pub(crate) name: String,
    /// Without those of tests.
    pub(crate) dependencies: Vec<String>,
    pub(crate) files: Vec<Source>,
}

/// A file below `src`.
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    /// `a::b` for `src/a/b.rs` and `src/a/b/mod.rs`; empty for the root.
    pub(crate) module: String,
    pub(crate) text: String,
    /// The text without its `#[cfg(test)] mod tests`.
    pub(crate) product: String,
}

pub(crate) fn crates(directory: &Path) -> Vec<Crate> {
    let mut crates: Vec<Crate> =
        list(directory).into_iter().filter(|path| path.is_dir()).map(|path| read(&path)).collect();
    crates.sort_by(|a, b| a.name.cmp(&b.name));
    crates
}

fn read(path: &Path) -> Crate {
    let manifest = fs::read_to_string(path.join("Cargo.toml")).expect("every crate has a manifest");
    let manifest: toml::Table = manifest.parse().expect("a manifest is TOML");
    let dependencies = manifest.get("dependencies").and_then(toml::Value::as_table);
    let mut files = Vec::new();
    collect(&path.join("src"), &path.join("src"), &mut files);
    Crate {
        name: path.file_name().expect("it has a name").to_string_lossy().into_owned(),
        dependencies: dependencies.map(|table| table.keys().cloned().collect()).unwrap_or_default(),
        files,
    }
}

fn list(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("a directory of the workspace");
    entries.map(|entry| entry.expect("it can be listed").path()).collect()
}

fn collect(directory: &Path, src: &Path, into: &mut Vec<Source>) {
    for path in list(directory) {
        if path.is_dir() {
            collect(&path, src, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("source is text");
            let product = without_tests(&text).to_string();
            into.push(Source { module: module(&path, src), path, text, product });
        }
    }
}

fn module(path: &Path, src: &Path) -> String {
    let inner = path.strip_prefix(src).expect("below src").with_extension("");
    let mut parts: Vec<String> = inner.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if matches!(parts.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        parts.pop();
    }
    parts.join("::")
}

/// The tests of a file stand at its end.
fn without_tests(text: &str) -> &str {
    match text.find("\n#[cfg(test)]\nmod tests {") {
        Some(at) => &text[..at + 1],
        None => text,
    }
}

impl Source {
    /// The product's code with comments and the insides of strings blanked out; the lines stay where they are.
    pub(crate) fn code(&self) -> String {
        blank(&self.product)
    }

    /// Lines (from 0) that have unsafe code, tests included.
    pub(crate) fn unsafe_lines(&self) -> Vec<usize> {
        let code = blank(&self.text);
        let is_unsafe = |line: &str| {
            let words = ["unsafe {", "unsafe impl", "unsafe fn", "unsafe extern", "#[unsafe("];
            words.iter().any(|word| line.contains(word)) && !line.contains("unsafe extern \"C\" fn(")
        };
        code.lines().enumerate().filter(|(_, line)| is_unsafe(line)).map(|(line, _)| line).collect()
    }

    /// Is there a SAFETY comment on the line or in the statement and comments right above it?
    pub(crate) fn says_safety(&self, line: usize) -> bool {
        const NEAR: usize = 10;
        let lines: Vec<&str> = self.text.lines().collect();
        let above = lines[line.saturating_sub(NEAR)..=line].iter().rev();
        above
            .take_while(|text| !text.trim().is_empty())
            .any(|text| text.contains("SAFETY:") || text.contains("# Safety"))
    }

    /// Every path that begins at the crate's root, groups taken apart: `crate::{a, b::{c, D}}` is `a`, `b::c`, `b::D`.
    pub(crate) fn paths(&self) -> Vec<String> {
        let code: String = self.code();
        let mut paths = Vec::new();
        for (prefix, base) in self.prefixes() {
            for (at, _) in code.match_indices(&prefix) {
                let before = code[..at].chars().next_back();
                if !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':' || c == '$') {
                    expand(&code[at + prefix.len()..], &base, &mut paths);
                }
            }
        }
        paths
    }

    /// The paths of the types of other modules that the file adds methods to: those of its `impl T {` blocks that it
    /// has from elsewhere. The implementation of a trait is none.
    pub(crate) fn extends(&self) -> Vec<String> {
        let code = self.code();
        let types: Vec<&str> = code.lines().filter_map(extended).collect();
        let paths = self.paths().into_iter();
        paths.filter(|path| path.rsplit_once("::").is_some_and(|(_, name)| types.contains(&name))).collect()
    }

    /// How a path to another module can begin here, and what that means.
    fn prefixes(&self) -> Vec<(String, String)> {
        let parent = self.module.rsplit_once("::").map_or("", |(outer, _)| outer);
        vec![
            ("crate::".into(), String::new()),
            ("super::".into(), parent.into()),
            ("self::".into(), self.module.clone()),
        ]
    }

    /// Functions of the product: name, first line (from 1), number of lines.
    pub(crate) fn functions(&self) -> Vec<(String, usize, usize)> {
        let code = self.code();
        let mut functions = Vec::new();
        for (at, _) in code.match_indices("fn ") {
            if code[..at].chars().next_back().is_some_and(|c| !c.is_whitespace()) {
                continue;
            }
            let rest = &code[at..];
            let name: String = rest[3..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            let end =
                rest.find(['{', ';']).filter(|end| rest.as_bytes()[*end] == b'{').and_then(|open| closing(rest, open));
            if let (false, Some(end)) = (name.is_empty(), end) {
                functions.push((name, 1 + code[..at].matches('\n').count(), rest[..=end].lines().count()));
            }
        }
        functions
    }

    /// Lines (from 1) with an oddity, and the program named in its comment.
    pub(crate) fn oddities(&self) -> Vec<(usize, Option<String>)> {
        let lines: Vec<&str> = self.text.lines().map(str::trim).collect();
        let marked = lines.iter().enumerate().filter(|(_, line)| line.starts_with("//") && line.contains("ODDITY("));
        let example = |line: &str| line.contains("ODDITY(name)");
        let marked = marked.filter(|(_, line)| !example(line));
        marked
            .map(|(at, _)| {
                let comment: Vec<&str> =
                    lines[at..].iter().copied().take_while(|line| line.starts_with("//")).collect();
                let comment = comment.join(" ").replace("//", "");
                let program = comment.split("prog:").nth(1).and_then(|rest| rest.split_whitespace().next());
                (at + 1, program.map(|program| program.trim_end_matches(['.', ',', ')', ';']).to_string()))
            })
            .collect()
    }
}

/// The type whose methods a line begins: `impl T {` or `impl<P> T<P> {`.
fn extended(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("impl")?;
    let rest = if rest.starts_with('<') { rest.split_once("> ")?.1 } else { rest.strip_prefix(' ')? };
    let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    (rest.ends_with('{') && !rest.contains(" for ")).then_some(name)
}

/// Takes a use tree or a path apart.
fn expand(text: &str, base: &str, into: &mut Vec<String>) {
    let join = |name: &str| if base.is_empty() { name.to_string() } else { format!("{base}::{name}") };
    if let Some(inner) = text.strip_prefix('{') {
        let Some(end) = closing(text, 0) else { return };
        split(&inner[..end - 1]).into_iter().for_each(|item| expand(item, base, into));
        return;
    }
    let name: String = text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let path = join(&name);
    match text[name.len()..].strip_prefix("::") {
        Some(rest) if !name.is_empty() && rest.starts_with(|c: char| c.is_alphabetic() || c == '_' || c == '{') => {
            expand(rest, &path, into)
        }
        _ => into.push(path),
    }
}

/// The items of a group, at its commas that are not in an inner group.
fn split(text: &str) -> Vec<&str> {
    let (mut items, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                items.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    items.push(text[start..].trim());
    items
}

/// Where the brace at `open` closes.
fn closing(code: &str, open: usize) -> Option<usize> {
    let mut depth = 0;
    for (at, c) in code[open..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(open + at);
        }
    }
    None
}

/// Blanks out comments, strings and character literals, byte by byte, so that lines and offsets stay.
fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = skip(bytes, at);
        if end > at {
            out[at..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
            at = end;
        } else {
            at += 1;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The end of the comment or literal that begins at `at`; `at` itself where none does.
fn skip(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    let find = |from: usize, what: &[u8]| {
        rest[from..].windows(what.len()).position(|window| window == what).map_or(rest.len(), |i| from + i + what.len())
    };
    let word_before = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
    match rest {
        [b'/', b'/', ..] => at + find(2, b"\n").saturating_sub(1).max(2),
        [b'/', b'*', ..] => at + find(2, b"*/"),
        [b'r', b'"', ..] if !word_before => at + find(2, b"\""),
        [b'r', b'#', b'"', ..] if !word_before => at + find(3, b"\"#"),
        [b'"', ..] => at + string_end(rest, b'"'),
        [b'\'', b'\\', ..] => at + string_end(rest, b'\''),
        // A lifetime has no quote behind its first character.
        [b'\'', _, b'\'', ..] => at + 3,
        _ => at,
    }
}

/// Length of a literal with escapes that ends with `quote`.
fn string_end(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

#[test]
fn source_is_read_as_meant() {
    let text =
        "use crate::{a, b::{self, c::D}};\n// crate::x\nfn f<'a>(s: &'a str) -> char {\n    \"crate::y {\"; '{'\n}\n";
    let source =
        Source { path: PathBuf::new(), module: "m".into(), text: text.into(), product: without_tests(text).into() };
    assert_eq!(source.paths(), ["a", "b::self", "b::c::D"]);
    assert_eq!(source.functions(), [("f".to_string(), 3, 3)]);
    assert_eq!(["impl<'a> A<'a> {", "impl B {", "impl C for D {"].map(extended), [Some("A"), Some("B"), None]);
}
