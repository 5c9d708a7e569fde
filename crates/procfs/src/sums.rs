//! What one large machine would say that has all that several have: the kernel's files of each, added up, in the kernel's own form.

use std::collections::HashMap;

/// A processor list as the kernel writes it (`0-3,8`), as numbers.
pub(crate) fn processors(list: &[u8]) -> Vec<usize> {
    // No machine has so many; what says so is none.
    const MOST: usize = 1 << 16;
    let text = String::from_utf8_lossy(list);
    let ranges = text.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some((first.parse::<usize>().ok()?, last.parse::<usize>().ok()?))
    });
    ranges.filter(|(_, last)| *last < MOST).flat_map(|(first, last)| first..=last).collect()
}

/// And back, with a line's end. No processors are an empty line.
pub(crate) fn list(processors: &[usize]) -> Vec<u8> {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for number in processors {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let one = |(first, last): (usize, usize)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    (ranges.into_iter().map(one).collect::<Vec<_>>().join(",") + "\n").into_bytes()
}

fn lines(text: &[u8]) -> impl Iterator<Item = &str> {
    text.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok()).filter(|line| !line.is_empty())
}

/// Adds numbers to those that are there; there may be more of them.
fn add(to: &mut Vec<u64>, numbers: impl Iterator<Item = u64>) {
    for (at, number) in numbers.enumerate() {
        match to.get_mut(at) {
            Some(sum) => *sum = sum.saturating_add(number),
            None => to.push(number),
        }
    }
}

fn words(numbers: &[u64]) -> String {
    numbers.iter().map(|number| format!(" {number}")).collect()
}

/// /proc/stat of all, the processors of each numbered behind its offset (proc_stat(5)). Lines come as the first machine has them, which also tells when it was started.
pub(crate) fn stat(machines: &[(&[u8], usize)]) -> Vec<u8> {
    let (mut order, mut sums): (Vec<&str>, HashMap<&str, Vec<u64>>) = Default::default();
    let mut processors = String::new();
    for (text, offset) in machines {
        for line in lines(text) {
            let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
            if let Some(number) = name.strip_prefix("cpu").and_then(|number| number.parse::<usize>().ok()) {
                processors += &format!("cpu{} {rest}\n", number + offset);
                continue;
            }
            let known = sums.contains_key(name);
            if !known {
                order.push(name);
            }
            let sum = sums.entry(name).or_default();
            if name != "btime" || !known {
                add(sum, rest.split_ascii_whitespace().filter_map(|word| word.parse().ok()));
            }
        }
    }
    let mut text = String::new();
    for name in order {
        match name {
            // Two spaces behind this one alone.
            "cpu" => text += &format!("cpu {}\n{processors}", words(&sums[name])),
            _ => text += &format!("{name}{}\n", words(&sums[name])),
        }
    }
    text.into_bytes()
}

/// Not the size of anything that a machine has.
const NO_SUMS: [&str; 2] = ["Hugepagesize", "VmallocChunk"];

/// /proc/meminfo of all (proc_meminfo(5)): the first machine's lines, with the sums of all in their columns.
pub(crate) fn meminfo(machines: &[&[u8]]) -> Vec<u8> {
    let value = |line: &str| line.split_ascii_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok());
    let mut sums: HashMap<&str, u64> = HashMap::new();
    for text in machines {
        for line in lines(text) {
            let (Some((name, _)), Some(value)) = (line.split_once(':'), value(line)) else { continue };
            let sum = sums.entry(name).or_default();
            if !NO_SUMS.contains(&name) || *sum == 0 {
                *sum = sum.saturating_add(value);
            }
        }
    }
    let mut text = String::new();
    for line in lines(machines.first().copied().unwrap_or_default()) {
        let Some((name, rest)) = line.split_once(':') else { continue };
        let (number, unit) = match rest.strip_suffix(" kB") {
            Some(number) => (number, " kB"),
            None => (rest, ""),
        };
        let sum = sums.get(name).copied().unwrap_or_default();
        // What is longer than its column goes to the right (linux: `show_val_kb`).
        let blank = 16usize.saturating_sub(name.len() + 1);
        text += &format!("{name}:{:blank$}{sum:>width$}{unit}\n", "", width = number.len().saturating_sub(blank));
    }
    text.into_bytes()
}

/// /proc/vmstat of all (proc_vmstat(5)).
pub(crate) fn vmstat(machines: &[&[u8]]) -> Vec<u8> {
    let (mut order, mut sums): (Vec<&str>, HashMap<&str, u64>) = Default::default();
    for text in machines {
        for line in lines(text) {
            let Some((name, value)) = line.split_once(' ') else { continue };
            let sum = sums.entry(name).or_insert_with(|| {
                order.push(name);
                0
            });
            *sum = sum.saturating_add(value.trim().parse().unwrap_or_default());
        }
    }
    order.iter().map(|name| format!("{name} {}\n", sums[name])).collect::<String>().into_bytes()
}

/// /proc/loadavg of all (proc_loadavg(5)): what runs and waits on all, and the number that the first machine has given last.
pub(crate) fn loadavg(machines: &[&[u8]]) -> Vec<u8> {
    let (mut loads, mut running, mut threads, mut last) = ([0f64; 3], 0u64, 0u64, None);
    for text in machines {
        let text = String::from_utf8_lossy(text);
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let [first, second, third, counts, number, ..] = words[..] else { continue };
        for (load, word) in loads.iter_mut().zip([first, second, third]) {
            *load += word.parse().unwrap_or(0.0);
        }
        let (now, all) = counts.split_once('/').unwrap_or(("0", "0"));
        running += now.parse().unwrap_or(0);
        threads += all.parse().unwrap_or(0);
        last.get_or_insert_with(|| number.to_owned());
    }
    let [first, second, third] = loads;
    let last = last.unwrap_or_else(|| "0".into());
    format!("{first:.2} {second:.2} {third:.2} {running}/{threads} {last}\n").into_bytes()
}

/// /proc/cpuinfo of all: processors have the numbers behind their machine's offset, and no two machines have one socket.
pub(crate) fn cpuinfo(machines: &[(&[u8], usize)]) -> Vec<u8> {
    let mut text = String::new();
    let mut sockets = 0;
    for (machine, offset) in machines {
        let mut next = sockets;
        // An empty line ends each.
        for line in machine.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok()) {
            let number = || line.split_once(": ").and_then(|(_, value)| value.trim().parse::<usize>().ok());
            let is = |name: &str| line.split_once(':').is_some_and(|(key, _)| key.trim_end() == name);
            match number() {
                Some(number) if is("processor") => text += &format!("processor\t: {}\n", number + offset),
                Some(number) if is("physical id") => {
                    next = next.max(sockets + number + 1);
                    text += &format!("physical id\t: {}\n", number + sockets);
                }
                _ => text += &format!("{line}\n"),
            }
        }
        // Behind the last line's end there was nothing.
        text.pop();
        sockets = next;
    }
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn one_machine_alone_is_as_it_is() {
        let of = |name: &str| std::fs::read(format!("/proc/{name}")).expect("procfs");
        let own = of("stat");
        assert_eq!(text(stat(&[(&own, 0)])), text(own));
        let own = of("meminfo");
        assert_eq!(text(meminfo(&[&own])), text(own));
        let own = of("vmstat");
        assert_eq!(text(vmstat(&[&own])), text(own));
        let own = of("loadavg");
        assert_eq!(text(loadavg(&[&own])), text(own));
        let own = of("cpuinfo");
        assert_eq!(text(cpuinfo(&[(&own, 0)])), text(own));
    }

    #[test]
    fn processors_are_numbered_behind_those_before() {
        let a = b"cpu  3 4\ncpu0 1 2\ncpu1 2 2\nintr 9 1\nbtime 100\nctxt 5\n";
        let b = b"cpu  10 20 7\ncpu0 10 20 7\nintr 1 1 1\nbtime 50\nctxt 6\nnew 1\n";
        let expected = "cpu  13 24 7\ncpu0 1 2\ncpu1 2 2\ncpu4 10 20 7\nintr 10 2 1\nbtime 100\nctxt 11\nnew 1\n";
        assert_eq!(text(stat(&[(a, 0), (b, 4)])), expected);
        let info = |number: usize, socket: usize| {
            format!("processor\t: {number}\nphysical id\t: {socket}\npower management:\n\n")
        };
        let machine = info(0, 0) + &info(1, 1);
        let all = text(cpuinfo(&[(machine.as_bytes(), 0), (machine.as_bytes(), 2)]));
        assert_eq!(all, info(0, 0) + &info(1, 1) + &info(2, 2) + &info(3, 3));
    }

    #[test]
    fn memory_and_load_are_added_up_in_their_columns() {
        let a = b"MemTotal:       16374684 kB\nHugePages_Total:       1\nHugepagesize:       2048 kB\n";
        let b = b"MemTotal:       90000000 kB\nHugePages_Total:       2\nHugepagesize:       2048 kB\n";
        let expected = "MemTotal:       106374684 kB\nHugePages_Total:       3\nHugepagesize:       2048 kB\n";
        assert_eq!(text(meminfo(&[a, b])), expected);
        assert_eq!(
            text(loadavg(&[b"0.50 1.25 2.00 1/100 77\n", b"0.25 0.75 1.00 2/50 99\n"])),
            "0.75 2.00 3.00 3/150 77\n"
        );
        assert_eq!(text(vmstat(&[b"a 1\nb 2\n", b"b 5\nc 1\n"])), "a 1\nb 7\nc 1\n");
    }

    #[test]
    fn lists_of_processors_are_read_and_written() {
        for of in ["0-3", "0", "0-1,4-7,9", ""] {
            assert_eq!(text(list(&processors(of.as_bytes()))), format!("{of}\n"));
        }
        assert_eq!(processors(b"0-9999999\n"), Vec::<usize>::new());
    }
}
