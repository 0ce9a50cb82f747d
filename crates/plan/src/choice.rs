//! Which of several ways to serve a plan suits what the plan was made for, and by how much. It must not know how schemes
//! work.

use lode_replay::{Report, VmReport};
use lode_reuse::sizing::Objective;

use crate::division::{SizeOptions, weight_of};
use crate::load::{Load, VmLoad};
use crate::report::WearReport;
use crate::words::show_life;

/// How much worse a replay may be and still count as equally good: a smaller difference is not worth anything else.
const EQUALLY_GOOD: f64 = 0.01;

/// What the objective `latency` looks at.
const LATENCY: &str = "mean latency";

/// One way that was replayed.
pub(crate) struct Candidate<'a> {
    /// The scheme with its settings, for people.
    pub(crate) name: String,
    /// It is what runs where nobody chooses.
    pub(crate) is_default: bool,
    pub(crate) report: &'a Report,
    /// What writing does to the SSD.
    pub(crate) wear: WearReport,
}

impl Candidate<'_> {
    fn latency_us(&self) -> f64 {
        self.report.total.mean_latency_us.unwrap_or(0.0)
    }

    /// How much of the SSD's life goes: what a year takes of it, or what is written in all where no times are known.
    fn worn(&self) -> f64 {
        let WearReport { life_years, bytes_per_day, written_bytes, .. } = self.wear;
        match (life_years, bytes_per_day) {
            (Some(years), _) => 1.0 / years,
            (None, Some(_)) => 0.0,
            (None, None) => written_bytes as f64,
        }
    }
}

/// The way that was taken, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Index of the candidate.
    pub(crate) at: usize,
    /// A part of a sentence.
    pub(crate) reason: String,
}

/// The best of `candidates`, the default first and then the simplest: by the objective; of those that are about as good, by
/// latency; of those, by wear of the SSD; of those, the first.
pub(crate) fn choose(load: &Load, options: &SizeOptions, candidates: &[Candidate<'_>]) -> Option<Choice> {
    let values: Vec<f64> = candidates.iter().map(|one| value(load, options, one.report)).collect();
    let best = (0..values.len()).reduce(|best, at| if values[at] > values[best] { at } else { best })?;
    let is_close = |&at: &usize| values[at] >= values[best] - EQUALLY_GOOD * values[best].abs();
    let close: Vec<usize> = (0..values.len()).filter(is_close).collect();
    let fast = nearly_least(&close, |at| candidates[at].latency_us());
    let sparing = nearly_least(&fast, |at| candidates[at].worn());
    let &at = sparing.first()?;
    let stages = Stages { candidates, values: &values, best, at, what: measured(options.objective) };
    let reason = if candidates.len() == 1 {
        "it is the only one that was replayed".to_owned()
    } else if close.len() == 1 {
        stages.by_objective()
    } else if sparing.len() < fast.len() {
        stages.by_wear(&fast, &sparing)
    } else if fast.len() < close.len() {
        stages.by_latency(&close, &fast)
    } else {
        let what =
            if stages.what == LATENCY { LATENCY.to_owned() } else { format!("{}, latency", stages.what) };
        let first = if candidates[at].is_default { "default" } else { "simplest of these" };
        format!("no other is better by 1 % in {what} or wear, and it is the {first}")
    };
    Some(Choice { at, reason })
}

/// Those of `among` whose value is the least or nearly so.
fn nearly_least(among: &[usize], value: impl Fn(usize) -> f64) -> Vec<usize> {
    let least = among.iter().map(|&at| value(at)).fold(f64::INFINITY, f64::min);
    among.iter().copied().filter(|&at| value(at) <= least * (1.0 + EQUALLY_GOOD)).collect()
}

/// What is known of a choice, to be put in words.
struct Stages<'a> {
    candidates: &'a [Candidate<'a>],
    values: &'a [f64],
    best: usize,
    at: usize,
    what: &'static str,
}

impl Stages<'_> {
    fn by_objective(&self) -> String {
        let others = (0..self.values.len()).filter(|&at| at != self.best);
        let next = others.reduce(|next, at| if self.values[at] > self.values[next] { at } else { next });
        let ahead = next.and_then(|next| Some((part(self.distance(next, next))?, next)));
        let ahead = ahead.map(|(part, next)| format!(", {part} better than {}", self.name(next)));
        format!("it is best in {}, which is the objective{}", self.what, ahead.unwrap_or_default())
    }

    /// How far a candidate is from the best, as a part of what `of` has.
    fn distance(&self, at: usize, of: usize) -> f64 {
        (self.values[self.best] - self.values[at]) / self.values[of].abs()
    }

    /// Where it stands in the objective: at the top, or close to it.
    fn standing(&self, rival: usize) -> String {
        let behind = |at| part(self.distance(at, self.best)).unwrap_or_else(|| "0.0 %".to_owned());
        if self.at == self.best {
            format!(
                "it is best in {}, though {} is only {} behind",
                self.what,
                self.name(rival),
                behind(rival)
            )
        } else {
            format!("in {} it is only {} behind {}", self.what, behind(self.at), self.name(self.best))
        }
    }

    fn by_latency(&self, close: &[usize], fast: &[usize]) -> String {
        // The rival is the best by the objective alone, where that is not what was taken.
        let slow = close.iter().copied().filter(|at| !fast.contains(at));
        let rival = slow.reduce(|one, other| if self.values[other] > self.values[one] { other } else { one });
        let rival = rival.unwrap_or(self.best);
        let less = saved(self.candidates[self.at].latency_us(), self.candidates[rival].latency_us());
        let standing = self.standing(rival);
        format!("{standing}, and its requests take {less} less time than those of {}", self.name(rival))
    }

    fn by_wear(&self, fast: &[usize], sparing: &[usize]) -> String {
        let rival = fast.iter().copied().filter(|at| !sparing.contains(at));
        let rival =
            rival.reduce(|one, other| if self.values[other] > self.values[one] { other } else { one });
        let rival = rival.unwrap_or(self.best);
        let [own, theirs] = [self.at, rival].map(|at| &self.candidates[at]);
        let least = match (own.wear.life_years, theirs.wear.life_years) {
            (Some(own), Some(theirs)) => {
                format!("lasts longest: {} instead of {} with", show_life(own), show_life(theirs))
            }
            _ => {
                format!("is spared most: {} less is written to it than by", saved(own.worn(), theirs.worn()))
            }
        };
        let standing = self.standing(rival);
        format!("{standing} and no slower, and with it the SSD {least} {}", self.name(rival))
    }

    fn name(&self, at: usize) -> &str {
        &self.candidates[at].name
    }
}

/// A share as a percentage; none of nothing.
fn part(share: f64) -> Option<String> {
    share.is_finite().then(|| format!("{:.1} %", 100.0 * share))
}

/// How much less `own` is than `theirs`.
fn saved(own: f64, theirs: f64) -> String {
    part((theirs - own) / theirs).unwrap_or_else(|| "0.0 %".to_owned())
}

/// What an objective looks at, for people.
fn measured(objective: Objective) -> &'static str {
    match objective {
        Objective::Latency { .. } => LATENCY,
        Objective::Hits => "read hits",
        Objective::SumHitRatio | Objective::PpcTotal { .. } | Objective::PpcLiteral { .. } => {
            "the sum of the VMs' hit ratios"
        }
        Objective::MaxMin => "the hit ratio of the VM that is worst off",
    }
}

/// How good a replay was by the objective; larger is better. Sizes cost the same in all replays, so that performance per
/// cost is performance.
fn value(load: &Load, options: &SizeOptions, report: &Report) -> f64 {
    let vms = || load.vms.iter().zip(&report.vms);
    let hits = |(vm, replayed): &(&VmLoad, &VmReport)| {
        let counters = &replayed.counts.counters;
        let hits = counters.read_hits.total() as f64;
        (hits, hits / counters.block_accesses.max(1) as f64, weight_of(vm, options))
    };
    match options.objective {
        Objective::Latency { .. } => -report.total.mean_latency_us.unwrap_or(0.0),
        Objective::Hits => vms().map(|vm| hits(&vm)).map(|(hits, _, weight)| weight * hits).sum(),
        Objective::SumHitRatio | Objective::PpcTotal { .. } | Objective::PpcLiteral { .. } => {
            vms().map(|vm| hits(&vm)).map(|(_, ratio, weight)| weight * ratio).sum()
        }
        // A VM that cannot hit is worst off with every scheme and says nothing of them.
        Objective::MaxMin => {
            let can_hit = vms().filter(|(_, replayed)| replayed.counts.counters.block_reads > 0);
            let ratios = can_hit.map(|vm| hits(&vm)).map(|(_, ratio, weight)| ratio / weight);
            ratios.reduce(f64::min).unwrap_or(0.0)
        }
    }
}
