//! Pages of an image that came while its process ran, and what of them still holds.

use crate::runs::{either, without};
use image::memory::Kept;
use image::Pages;
use kern::pagemap::Run;
use vocab::{Fault, Result};

/// Pages that came before the mappings in which they are, and what of them still holds.
#[derive(Default)]
pub(crate) struct Early {
    pub(crate) pages: Vec<Pages>,
    pub(crate) kept: Vec<Run>,
    pub(crate) guessed: Came,
}

impl Early {
    pub(crate) fn keep(&mut self, kept: &Kept) -> Result<()> {
        self.kept = in_order(kept)?;
        Ok(())
    }

    pub(crate) fn lose(&mut self, gone: &Kept) -> Result<()> {
        self.guessed.gone = in_order(gone)?;
        Ok(())
    }
}

fn in_order(kept: &Kept) -> Result<Vec<Run>> {
    let runs: Vec<Run> = kept.runs.iter().map(|&(start, end)| Run { start, end }).collect();
    let ordered = runs.iter().all(|run| run.start < run.end);
    match ordered && runs.windows(2).all(|two| two[0].end <= two[1].start) {
        true => Ok(runs),
        false => Err(Fault::wire("kept pages that are not in their order")),
    }
}

/// Guessed pages as they have come.
#[derive(Default)]
pub(crate) struct Came {
    pub(crate) pages: Vec<Pages>,
    /// Where there is nothing of them any more.
    pub(crate) gone: Vec<Run>,
    /// They are in the process already.
    pub(crate) placed: bool,
}

impl Came {
    /// Where they hold, as far as is known before what is not so comes.
    pub(crate) fn there(&self) -> Vec<Run> {
        let all: Vec<Run> = self.pages.iter().map(run).collect();
        without(&either(&all, &[]), &self.gone)
    }
}

/// Where they are.
pub(crate) fn run(pages: &Pages) -> Run {
    Run { start: pages.start(), end: pages.start().saturating_add(pages.bytes().len() as u64) }
}
