//! Results in the shape that `docs/reports.md` describes, whose names are stable.

mod baseline;
mod compare;
mod curve;
mod each;
mod plan;

pub use baseline::{Against, Spread};
pub use compare::{CellReport, CellVm, CompareReport, SchemeEntry};
pub use curve::{
    CurveReport, IntervalReport, PART_SHARES, PartReport, VmCurveReport, method_used, rate_text,
};
pub use each::{EachReport, OverTraces, TraceComparison};
pub(crate) use plan::ReplayFigures;
pub use plan::{
    FrontReport, LevelReport, LevelTotalsReport, OneLevelReport, OutcomeReport, ReplayedReport, SizeReport,
    SplitReport, SplitsReport, TotalsReport, VmSizeReport, WearReport,
};
