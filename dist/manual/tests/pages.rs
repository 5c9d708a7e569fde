//! The pages that the program writes.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A directory with all pages.
struct Pages(PathBuf);

impl Pages {
    fn make() -> Pages {
        let path = std::env::temp_dir().join(format!("shoal-manual.{}", std::process::id()));
        let words = [path.as_os_str(), "2026-11-30".as_ref()];
        let done = Command::new(env!("CARGO_BIN_EXE_manual")).args(words).status().expect("the program starts");
        assert!(done.success(), "{done}");
        Pages(path)
    }

    fn names(&self, section: &str) -> BTreeSet<String> {
        let entries = fs::read_dir(self.0.join(section)).expect("a directory of pages");
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).expect("a page")
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn every_command_of_users_has_a_page_and_no_other_one_has() {
    let pages = Pages::make();
    let names = pages.names("man1");
    for name in ["shoal.1", "shoal-run.1", "shoal-job-submit.1", "shoal-mon-sample.1", "bpsh.1", "shoal-rsh.1"] {
        assert!(names.contains(name), "{name}");
    }
    for hidden in ["holder", "mover", "complete", "jobs", "node-proc", "ghost"] {
        assert!(!names.contains(&format!("shoal-{hidden}.1")), "{hidden}");
    }
    assert!(names.len() > 30, "{names:?}");
    let run = pages.text("man1/shoal-run.1");
    assert!(run.contains(".TH SHOAL-RUN 1 2026-11-30 "), "{run}");
    assert!(run.contains("\\-\\-terminal") && !run.contains("\\-\\-threads"), "{run}");
}

#[test]
fn settings_are_those_of_the_example() {
    let pages = Pages::make();
    let page = pages.text("man5/shoal.toml.5");
    let example = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../shoal.toml")).expect("the example");
    let mut settings = 0;
    for line in example.lines() {
        let Some((name, _)) = line.trim_start_matches("# ").split_once(" = ") else { continue };
        if name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') {
            assert!(page.contains(&format!("\n\\fB{name} = ")), "{name}");
            settings += 1;
        }
    }
    assert!(settings > 25, "{settings}");
    assert!(pages.text("man7/shoal.7").contains(".TH SHOAL 7 2026-11-30 "));
}
