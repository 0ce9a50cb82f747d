//! The experiments of the papers that Lodestore follows: what they ran, what they report, what comes out here, and where
//! that parts.
//!
//! An [`Experiment`] is a description: the paper's figure, what it says (each a [`Claim`] with its place in the paper and
//! what counts as the same direction), and the runs that are needed as plain data ([`job::Job`]). [`run_experiments`] runs them and
//! gives a [`PaperReport`], which is a page, a Markdown text and JSON. The same profiles, traces and options give the same
//! report, whatever the number of threads. This crate must not know sockets, media or the command line.

#![forbid(unsafe_code)]

pub mod at_hand;
pub mod auto;
mod chart;
mod claim;
mod eci_cache;
mod error;
mod etica;
mod experiment;
pub mod job;
mod markdown;
mod measures;
mod page;
mod paper;
mod report;
mod request_oriented;
mod rpac;
pub mod run;
mod tica;
pub mod workload;

pub use at_hand::{AtHand, AtHandRun, AtHandTraces, run_at_hand};
pub use chart::{BarPart, Bars, Chart, Curve, Lines, Scale};
pub use claim::{Bound, Claim, Reported, Shown};
pub use error::PapersError;
pub use experiment::{Experiment, Finding, Measured};
pub use markdown::{FAR_PERCENT, TURNED_PERCENT, is_near, markdown, shorter_rows};
pub use page::page;
pub use paper::Paper;
pub use report::{ClaimReport, ExperimentReport, PaperReport, ReadingReport, Sources, run_experiments};

/// Every experiment, paper by paper.
pub fn experiments() -> impl Iterator<Item = &'static Experiment> {
    let of_papers = [
        etica::EXPERIMENTS,
        eci_cache::EXPERIMENTS,
        tica::EXPERIMENTS,
        rpac::EXPERIMENTS,
        request_oriented::EXPERIMENTS,
    ];
    of_papers.into_iter().flatten()
}

/// What of the papers can be asked of traces at hand, paper by paper.
pub fn at_hand() -> impl Iterator<Item = &'static AtHand> {
    [&etica::AT_HAND, &eci_cache::AT_HAND, &tica::AT_HAND, &rpac::AT_HAND].into_iter()
}
