//! Sizes and times as people read them.

/// Bytes with a binary unit, as `free -h` has them.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "Ki", "Mi", "Gi", "Ti", "Pi"];
    let mut size = bytes as f64;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes}B"),
        _ if size < 10.0 => format!("{size:.1}{}", UNITS[unit]),
        _ => format!("{size:.0}{}", UNITS[unit]),
    }
}

/// Milliseconds as `ps` has CPU time: MM:SS, HH:MM:SS, DD-HH:MM:SS.
pub fn cpu_time(ms: u64) -> String {
    let s = ms / 1000;
    let (days, hours, minutes, seconds) = (s / 86_400, s / 3600 % 24, s / 60 % 60, s % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes:02}:{seconds:02}"),
        (0, _) => format!("{hours:02}:{minutes:02}:{seconds:02}"),
        _ => format!("{days}-{hours:02}:{minutes:02}:{seconds:02}"),
    }
}

/// What processes call themselves, on one line: what would move the cursor, or turn the direction of what follows, is `?`.
pub fn plain(text: &str) -> String {
    let turns =
        |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
    text.replace(|c: char| c.is_control() || turns(c), "?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_read_like_those_of_free_and_ps() {
        assert_eq!(bytes(1000), "1000B");
        assert_eq!(bytes(1536), "1.5Ki");
        assert_eq!(bytes(24 << 30), "24Gi");
        assert_eq!(cpu_time(61_000), "01:01");
        assert_eq!(cpu_time(90_061_000), "1-01:01:01");
    }

    #[test]
    fn what_would_spoil_a_line_is_a_question_mark() {
        assert_eq!(plain("a\x1b[2Jb\n\u{202e}c \u{e4}"), "a?[2Jb??c \u{e4}");
    }
}
