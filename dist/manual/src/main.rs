//! Makes the man pages: `manual DIRECTORY DATE` writes `man1`, `man5` and `man7` into the directory.
//!
//! The pages of commands come from the definitions of the program's options, shoal.toml(5) from the example configuration, shoal(7) is a text. None of it is in the program itself.
#![forbid(unsafe_code)]

mod commands;
mod settings;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A file, by its name below the directory, and its text.
type Page = (String, Vec<u8>);

const OVERVIEW: &str = include_str!("../shoal.7");

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [directory, date] = words.as_slice() else {
        eprintln!("manual: wanted: DIRECTORY DATE");
        return ExitCode::from(2);
    };
    match pages(date).and_then(|pages| write(Path::new(directory), &pages)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("manual: {why}");
            ExitCode::FAILURE
        }
    }
}

fn pages(date: &str) -> Result<Vec<Page>, String> {
    // The default socket is in help texts: the one of a machine without settings.
    std::env::remove_var("SHOAL_SOCKET");
    let mut pages = commands::pages(date).map_err(|e| format!("write the page of a command: {e}"))?;
    pages.push(("man5/shoal.toml.5".into(), settings::page(date).into_bytes()));
    pages.push(("man7/shoal.7".into(), OVERVIEW.replace("@DATE@", date).into_bytes()));
    Ok(pages)
}

fn write(directory: &Path, pages: &[Page]) -> Result<(), String> {
    let failed = |path: &PathBuf, e| format!("write {}: {e}", path.display());
    for (name, text) in pages {
        let path = directory.join(name);
        let parent = path.parent().unwrap_or(directory);
        fs::create_dir_all(parent).and_then(|()| fs::write(&path, text)).map_err(|e| failed(&path, e))?;
    }
    Ok(())
}

/// A line of text as troff has it.
fn troff(line: &str) -> String {
    let escaped = line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    // At the start of a line these are requests.
    if escaped.starts_with('.') {
        format!("\\&{escaped}")
    } else {
        escaped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_no_request() {
        assert_eq!(troff(".x-y\\"), "\\&.x\\-y\\e");
        assert_eq!(troff("'x"), "\\(aqx");
    }
}
