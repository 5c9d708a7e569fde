//! A list of nodes as a user types it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vocab::NodeSet;

fuzz_target!(|text: &str| {
    if let Ok(set) = NodeSet::parse(text) {
        assert_eq!(NodeSet::parse(&set.to_string()).ok(), Some(set));
    }
});
