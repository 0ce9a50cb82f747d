//! The same under a budget of SSD writes: whether it is kept in every window, and what latency it leaves. It must not know
//! how schemes hold to it.

use lode_hardware::time::{SECOND_NS, SECONDS_PER_DAY};
use lode_policy::{Counters, Quota, Scheme, SchemeInfo, Settings, build};
use lode_replay::{Recording, ReplayError};
use lode_trace::{SpanInfo, vm_block};
use lode_types::{Access, Direction, RequestOp, blocks_of};
use serde::Serialize;

use super::AUTO;
use super::figures::{SchemeFigures, best_of, figures_of, replayed};
use crate::error::PapersError;
use crate::run::BLOCK;

/// The budget, as a part of what `lru` writes.
const PART: f64 = 0.5;
/// By which it is measured.
const MEASURE: &str = "lru";
/// A single scheme that holds to budgets as well.
const BENEFIT_DENSITY: &str = "benefit-density";
/// Windows are a tenth of all time, or of all accesses.
const WINDOWS: f64 = 10.0;
const NS_PER_DAY: f64 = SECONDS_PER_DAY * SECOND_NS;

/// What a budget leads to.
#[derive(Clone, Debug, Serialize)]
pub struct BudgetFigures {
    /// The setting `write_budget`: half of what `lru` writes, for each day, or for each hundred accesses where there are no times.
    pub write_budget: String,
    /// Blocks that it allows in all.
    pub allowed_blocks: u64,
    /// `auto` with it.
    pub auto: SchemeFigures,
    /// `benefit-density` with it.
    pub benefit_density: SchemeFigures,
    /// The best of the single schemes that write no more without one; none where there is none.
    pub best: Option<SchemeFigures>,
    /// By how many blocks the window with most exceeds its part of what is allowed; below zero: it does not.
    pub most_over_blocks: f64,
    /// The same as a part of what is allowed in a window.
    pub most_over: f64,
}

/// Measures it; none where nothing is written.
pub(super) fn measure(
    recording: &Recording,
    has_times: bool,
    physical: Quota,
    schemes: &[SchemeFigures],
) -> Result<Option<BudgetFigures>, PapersError> {
    let written = schemes.iter().find(|one| one.scheme == MEASURE).map_or(0, |one| one.ssd_writes);
    let places = Places::of(recording, has_times);
    let allowed = written as f64 * PART;
    let Some(write_budget) = places.setting(allowed) else { return Ok(None) };
    let budgeted = |scheme: &str| -> Result<Settings, PapersError> {
        let mut settings = SchemeInfo::find(scheme).map_err(ReplayError::from)?.settings();
        settings.set("write_budget", &write_budget)?;
        Ok(settings)
    };
    let auto = figures_of(AUTO, &replayed(recording, budgeted(AUTO)?, physical)?);
    let benefit_density =
        figures_of(BENEFIT_DENSITY, &replayed(recording, budgeted(BENEFIT_DENSITY)?, physical)?);
    let window = places.length / WINDOWS;
    let most = places.most_in(window, &written_by_request(recording, &budgeted(AUTO)?, physical));
    let of_window = allowed / WINDOWS;
    Ok(Some(BudgetFigures {
        allowed_blocks: allowed as u64,
        auto,
        benefit_density,
        best: best_of(schemes.iter().filter(|one| one.ssd_writes as f64 <= allowed)),
        most_over_blocks: most as f64 - of_window,
        most_over: (most as f64 - of_window) / of_window,
        write_budget,
    }))
}

/// Where each request is: in nanoseconds, or in accesses where there are no times. Ascending.
struct Places {
    at: Vec<f64>,
    has_times: bool,
    /// Length of all.
    length: f64,
}

impl Places {
    fn of(recording: &Recording, has_times: bool) -> Places {
        if has_times {
            let places = Places::in_time(recording.requests_by_time().iter().map(|(_, one)| one.time_ns));
            // Times of which all are the same say nothing.
            if places.length > 0.0 {
                return places;
            }
        }
        let mut accesses = 0;
        let counted = recording.requests_by_time().iter().map(|(_, request)| {
            accesses += blocks_of(BLOCK, request.offset_bytes, request.length_bytes.into()).len() as u64;
            accesses as f64
        });
        let at: Vec<f64> = counted.collect();
        Places { length: at.last().copied().unwrap_or(0.0), at, has_times: false }
    }

    /// The length is that of the usual times: one that is astray would make a day's part of the budget next to nothing.
    fn in_time(times_ns: impl Iterator<Item = u64> + Clone) -> Places {
        let span = SpanInfo::of_times(times_ns.clone());
        let usual = span.map_or(0.0, |span| (span.usual_last_ns - span.usual_first_ns) as f64);
        let mut latest_ns = 0;
        let later = times_ns.map(|time_ns| {
            latest_ns = time_ns.max(latest_ns);
            latest_ns as f64
        });
        let at: Vec<f64> = later.collect();
        // Usual times are known to a part of a second at best.
        let all = at.last().map_or(0.0, |last| last - at[0]);
        Places { at, has_times: true, length: usual.min(all) }
    }

    /// The budget with which so many blocks are allowed in all; none of nothing.
    fn setting(&self, blocks: f64) -> Option<String> {
        let length = self.length;
        if blocks < 1.0 || length <= 0.0 {
            return None;
        }
        Some(match self.has_times {
            // More times may be astray than are known for it.
            true => format!("{:.0}/day", (blocks * BLOCK.bytes() as f64 / (length / NS_PER_DAY)).max(1.0)),
            false => format!("{}", (blocks / length * 100.0).min(1000.0)),
        })
    }

    /// Most blocks written in any window of this length, of what each request wrote.
    fn most_in(&self, window: f64, written: &[u64]) -> u64 {
        let (mut first, mut inside, mut most) = (0, 0, 0);
        for (at, written_now) in written.iter().enumerate() {
            inside += written_now;
            while self.at[at] - self.at[first] > window {
                inside -= written[first];
                first += 1;
            }
            most = most.max(inside);
        }
        most
    }
}

/// Blocks that each request has written to the SSD, decided one request after the other.
fn written_by_request(recording: &Recording, settings: &Settings, physical: Quota) -> Vec<u64> {
    let mut scheme = build(&settings.clone().for_blocks(BLOCK), physical, physical);
    let mut counters = Counters::default();
    let mut written = Vec::with_capacity(recording.requests());
    for (_, request) in recording.requests_by_time() {
        let before = counters.ssd_writes.total();
        let op = match request.op {
            RequestOp::Read => Some(Direction::Read),
            RequestOp::Write => Some(Direction::Write),
            RequestOp::Trim | RequestOp::Flush => None,
        };
        if let Some((op, first)) = op.zip(vm_block(request.volume, 0)) {
            for part in blocks_of(BLOCK, request.offset_bytes, request.length_bytes.into()) {
                let access =
                    Access { block: first | part.block, op, partial: part.partial, origin: request.origin };
                scheme.access(access, &mut Written(&mut counters));
            }
            scheme.end_request(request.time_ns, &mut Written(&mut counters));
        }
        written.push(counters.ssd_writes.total() - before);
    }
    written
}

/// Counts effects.
struct Written<'a>(&'a mut Counters);

impl lode_policy::Sink for Written<'_> {
    fn effect(&mut self, effect: lode_policy::Effect) {
        self.0.effect(&effect);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_is_astray_does_not_lengthen_a_trace() {
        let times_ns = (0..1000).map(|second| second * SECOND_NS as u64);
        let usual = Places::in_time(times_ns.clone());
        let astray = Places::in_time(times_ns.chain([40 * 365 * NS_PER_DAY as u64]));
        assert_eq!((usual.length, astray.length), (999.0 * SECOND_NS, 999.0 * SECOND_NS));
        assert_eq!(astray.setting(100.0), usual.setting(100.0));
        assert_eq!(Places::in_time([7; 5].into_iter()).length, 0.0);
        // What it writes is in a window of its own.
        assert_eq!(astray.most_in(99.9 * SECOND_NS, &[1; 1001]), 100);
    }
}
