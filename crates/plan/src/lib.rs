//! Answers for people who plan: hit curves of every VM, sizes for a budget, schemes side by side.
//!
//! Everything works on traces: [`curves()`] measures what caches of every size would do, [`measure`] and [`answer()`]
//! divide levels by it, [`miniature`] simulates schemes without curves, [`compare()`] replays schemes over a grid of
//! sizes. Threads live here; no result depends on their number. This crate must not know sockets or media.

#![forbid(unsafe_code)]

mod advice;
mod answer;
mod asked;
mod choice;
mod compare;
mod curves;
mod division;
mod error;
mod front;
mod heading;
mod host_memory;
mod jobs;
mod levels;
mod load;
mod look_ahead;
mod mapping;
mod memory;
mod mini;
mod one_level;
mod pages;
mod pieces;
mod planned;
mod pool;
mod recommend;
mod report;
mod served;
mod streams;
mod totals;
mod two_levels;
mod words;

pub use answer::{Answer, Means, answer};
pub use asked::{
    DivisionWords, Followed, LevelSize, SHARE_GRANULE_BYTES, auto_method, check_rule, pair_sizes,
    parse_interval, parse_method, parse_money, parse_rule, parse_sampling, parse_scheme, parse_wish,
};
pub use compare::{Cell, CompareOptions, CompareProgress, MAX_CELLS, compare};
pub use curves::{CurveOptions, Curves, Cut, IntervalCurve, MAX_WORKING_SET_BLOCKS, VmCurve, curves};
pub use division::{LevelPlan, Outcome, SizeOptions, SizePlan, VmPlan, VmRule, size};
pub use error::PlanError;
pub use front::{DrivePrice, FrontPoint, MAX_BUDGET_USD, Prices, best, front};
pub use heading::{Made, PROGRAM};
pub use host_memory::HostMemory;
pub use jobs::in_parallel;
pub use levels::{LevelBlockCounts, LevelBytes};
pub use load::{Load, MAX_CURVE_POINTS, SsdKeeps, VmLoad, measure};
pub use mapping::{ComparedSchemes, Mapping, MappingKind};
pub use mini::{MAX_MINI_SIZES, MiniOptions, MiniPoint, MiniVm, SIMULATED_POWERS, miniature};
pub use pages::{
    Fleet, FleetHost, FleetReplay, FleetVolume, MAX_PAGE_VMS, compare_page, compare_picture, curve_page,
    curve_picture, fleet_page, size_page, size_picture,
};
pub use planned::{MAX_PLAN_BYTES, PlannedShares};
pub use recommend::{RecommendedReport, RecommendedVm, Wish};
pub use report::*;
pub use served::{LeftOut, ServeOptions};
pub use streams::{Interval, MAX_INTERVALS, Sampling, StreamFacts, StreamOptions};
pub use totals::{LevelTotals, Totals, totals};
pub use two_levels::TwoLevels;
pub use words::show_life;
