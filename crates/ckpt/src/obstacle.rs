//! What is in the way of a dump.

/// One thing that is not carried, in words: `descriptor 5 (socket:[77]) leads to other processes`.
pub type Obstacle = String;
