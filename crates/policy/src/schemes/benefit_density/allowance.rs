//! How many blocks may be written to an SSD, so that they keep to so many for each access or each day, evenly.
//!
//! For each access: a token bucket (Turner, "New directions in communications", IEEE Communications Magazine 1986; recalled), of
//! which little may be saved up. For each day: no window of a tenth of all time so far, and none that is longer, has more than
//! its time allows ([`Windows`]); so what a pause leaves may be used up to that. It must not know what is written, or what that is
//! worth.

use std::collections::VecDeque;

use crate::interval::{MOST_BACK_NS, NS_PER_DAY, Since};
use crate::settings::WriteBudget;

/// What may be written beside what is allowed: a whole block, of which parts are allowed one after the other, and one more, without which
/// requests that come as blocks are allowed would find none now and then.
const SAVED_BLOCKS: f64 = 2.0;
/// For each access, what may be saved up beside, as a part of what was allowed so far. In a window of a tenth of all accesses that
/// makes 1 % at most.
const SAVED_PART: f64 = 0.001;
/// The shortest windows that are looked at: this part of all time so far, and no more than a day.
const WINDOW_PART: f64 = 0.1;
const MOST_WINDOW_NS: f64 = NS_PER_DAY;
/// Steps of the shortest windows in which time is remembered.
const STEPS: f64 = 128.0;
/// A time without requests allows no more than all time before it, or this one if that is more: a request whose time is astray
/// must not make much of nothing.
const LEAST_GAP_NS: f64 = NS_PER_DAY / 24.0;

/// See the module's documentation.
#[derive(Clone, Debug)]
pub(crate) struct Allowance {
    budget: WriteBudget,
    left_blocks: f64,
    /// Of a budget for each access, what was allowed so far.
    allowed_blocks: f64,
    windows: Windows,
    latest: Since,
}

impl Allowance {
    pub(crate) fn new(budget: WriteBudget) -> Allowance {
        let mut allowance = Allowance {
            budget,
            left_blocks: 0.0,
            allowed_blocks: 0.0,
            windows: Windows::default(),
            latest: Since::default(),
        };
        allowance.left_blocks = allowance.saved_blocks();
        allowance
    }

    /// Another budget from now on. What is left stays, where it is one for each day as before.
    pub(crate) fn set_budget(&mut self, budget: WriteBudget) {
        match (self.budget, budget) {
            (WriteBudget::PerDay(_), WriteBudget::PerDay(_)) => self.budget = budget,
            (old, new) if old == new => {}
            _ => *self = Allowance::new(budget),
        }
    }

    /// Bytes of memory beside itself.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.windows.later.capacity() * size_of::<Later>()
    }

    /// Whether any number may be written.
    #[inline(always)]
    pub(crate) fn is_any(&self) -> bool {
        self.budget == WriteBudget::Any
    }

    fn saved_blocks(&self) -> f64 {
        match self.budget {
            WriteBudget::PerDay(blocks) => SAVED_BLOCKS.min(blocks),
            _ => SAVED_BLOCKS,
        }
    }

    /// A block is accessed. Returns the blocks that may be written for that.
    #[inline(always)]
    pub(crate) fn note_access(&mut self) -> f64 {
        let WriteBudget::PerAccess(blocks) = self.budget else { return 0.0 };
        self.allowed_blocks += blocks;
        self.left_blocks = (self.left_blocks + blocks).min(self.most_blocks());
        blocks
    }

    /// A request is over, which came at `now_ns`. Returns the blocks that might be written for the time that passed before it.
    #[inline]
    pub(crate) fn end_request(&mut self, now_ns: u64) -> f64 {
        let WriteBudget::PerDay(blocks) = self.budget else { return 0.0 };
        self.latest.put_right(now_ns, MOST_BACK_NS);
        let passed_ns = self.latest.passed_ns(now_ns);
        if passed_ns == 0 {
            self.windows.written_before = self.windows.written;
            return 0.0;
        }
        self.latest.begin(now_ns);
        let passed_ns = (passed_ns as f64).min(self.windows.clock_ns.max(LEAST_GAP_NS));
        self.left_blocks = self.windows.pass(passed_ns, blocks / NS_PER_DAY) + self.saved_blocks();
        passed_ns / NS_PER_DAY * blocks
    }

    /// How scarce blocks are, from 0 to 1: of what the shortest windows allow at least a half is left, or nothing.
    #[inline]
    pub(crate) fn scarcity(&self) -> f64 {
        match self.budget {
            WriteBudget::Any => 0.0,
            WriteBudget::PerAccess(_) => 1.0,
            WriteBudget::PerDay(_) => {
                (1.0 - 2.0 * self.left_blocks / self.window_blocks().max(1.0)).clamp(0.0, 1.0)
            }
        }
    }

    /// What may be saved up of a budget for each access.
    fn most_blocks(&self) -> f64 {
        SAVED_BLOCKS + self.allowed_blocks * SAVED_PART
    }

    /// What the shortest windows allow.
    fn window_blocks(&self) -> f64 {
        match self.budget {
            WriteBudget::PerDay(blocks) => blocks / NS_PER_DAY * self.windows.shortest_ns(),
            _ => 0.0,
        }
    }

    #[inline(always)]
    fn has_one(&self) -> bool {
        self.is_any() || self.left_blocks >= 1.0
    }

    #[inline(always)]
    fn take_one(&mut self) {
        if !self.is_any() {
            self.left_blocks -= 1.0;
            self.windows.written += 1.0;
        }
    }

    /// Takes a block of each of them, if each has one.
    #[inline]
    pub(crate) fn take_of_both(&mut self, other: &mut Allowance) -> bool {
        let have_one = self.has_one() && other.has_one();
        if have_one {
            self.take_one();
            other.take_one();
        }
        have_one
    }
}

/// What was written and allowed over time. With N written and R allowed up to a time, no window from a to b may have N(b) - N(a) > R(b) -
/// R(a), if it is as long as the shortest that are looked at when it ends: so N(b) is at most R(b) and the least N(a) - R(a) of all a
/// that are so far back. That is least just before a request, or at the last of these times.
#[derive(Clone, Debug, Default)]
struct Windows {
    clock_ns: f64,
    /// N and R, now.
    written: f64,
    allowed: f64,
    /// N when the last request ended.
    written_before: f64,
    /// The least N - R so far back.
    least: f64,
    /// Requests since, some together.
    later: VecDeque<Later>,
}

/// Requests that came one soon after the other.
#[derive(Clone, Copy, Debug)]
struct Later {
    /// When the first of them came; and N and R just before it, and how fast R had grown.
    at_ns: f64,
    written: f64,
    allowed: f64,
    blocks_per_ns: f64,
    /// The least N - R just before any of them.
    least: f64,
}

impl Windows {
    fn shortest_ns(&self) -> f64 {
        (self.clock_ns * WINDOW_PART).min(MOST_WINDOW_NS)
    }

    /// Time passed, and a request came at its end, which has taken what it took. Returns the blocks that may be written now.
    fn pass(&mut self, ns: f64, blocks_per_ns: f64) -> f64 {
        self.clock_ns += ns;
        self.allowed += ns * blocks_per_ns;
        let shortest_ns = self.shortest_ns();
        let least = self.written_before - self.allowed;
        match self.later.back_mut() {
            // As if all of them came with the first.
            Some(last) if self.clock_ns - last.at_ns <= shortest_ns / STEPS => {
                last.least = last.least.min(least)
            }
            _ => self.later.push_back(Later {
                at_ns: self.clock_ns,
                written: self.written_before,
                allowed: self.allowed,
                blocks_per_ns,
                least,
            }),
        }
        self.written_before = self.written;
        let start_ns = self.clock_ns - shortest_ns;
        while let Some(first) = self.later.front()
            && first.at_ns <= start_ns
        {
            self.least = self.least.min(first.least);
            self.later.pop_front();
        }
        let at_start = self.later.front().map_or(self.least, |first| {
            first.written - (first.allowed - (first.at_ns - start_ns) * first.blocks_per_ns)
        });
        self.allowed + self.least.min(at_start) - self.written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// How many of the wanted blocks are taken, request by request; each has its second, and how many it wants.
    fn taken(allowance: &mut Allowance, requests: impl IntoIterator<Item = (u64, u32)>) -> Vec<u32> {
        let mut request = |(s, wanted): (u64, u32)| {
            let mut any = Allowance::new(WriteBudget::Any);
            let taken = (0..wanted).filter(|_| allowance.take_of_both(&mut any)).count() as u32;
            allowance.end_request(s * S);
            taken
        };
        requests.into_iter().map(&mut request).collect()
    }

    /// One block a second.
    fn of_seconds() -> Allowance {
        Allowance::new(WriteBudget::PerDay(86_400.0))
    }

    #[test]
    fn no_window_has_more_than_its_time_allows() {
        let mut allowance = of_seconds();
        // Bursts and pauses, always more wanted than there is.
        let times: Vec<u64> = (0..40_000).filter(|s| s / 700 % 3 != 1).collect();
        let taken = taken(&mut allowance, times.iter().map(|&s| (s, 9)));
        let window = 4000;
        for first in (0..36_000).step_by(37) {
            let inside = times.iter().zip(&taken).filter(|(s, _)| (first..first + window).contains(*s));
            let sum: u32 = inside.map(|(_, taken)| taken).sum();
            assert!(f64::from(sum) <= window as f64 + SAVED_BLOCKS, "{sum} from {first} s on");
        }
        let sum: u32 = taken.iter().sum();
        // A third of the time nothing comes, and some of what that allows is used after it: more would be too much in windows that
        // have one pause less than others.
        assert!(sum > 30_000, "{sum}");
    }

    /// By the sums themselves: whatever comes, no window that is as long as it has to be has more than it may.
    #[test]
    fn windows_are_as_their_sums_say() {
        let mut rng = lode_types::Rng::new(3);
        for round in 0..40u64 {
            let mut allowance = of_seconds();
            let mut requests: Vec<(u64, u32)> = Vec::new();
            let mut s = 0;
            for _ in 0..600 {
                s += if rng.below(20) == 0 { rng.below(400 + round * 50) } else { rng.below(3) };
                requests.push((s, rng.below(30) as u32));
            }
            let taken = taken(&mut allowance, requests.iter().copied());
            for (end, &(end_s, _)) in requests.iter().enumerate() {
                let mut sum = 0;
                for begin in (0..=end).rev() {
                    sum += taken[begin];
                    // Just before this request, or as far back as the shortest window is.
                    let length_s = (end_s - requests[begin].0) as f64;
                    let length_s = length_s.max(end_s as f64 / 10.0);
                    assert!(
                        f64::from(sum) <= length_s + SAVED_BLOCKS,
                        "{sum} in {length_s} s before {end_s} s"
                    );
                }
            }
        }
    }

    #[test]
    fn a_pause_saves_up_a_tenth_of_all_time() {
        let mut allowance = of_seconds();
        let before: u32 = taken(&mut allowance, (0..1000).map(|s| (s, 2))).iter().sum();
        assert!((999..1002).contains(&before), "{before}");
        let after = taken(&mut allowance, [(1900, 0), (1900, 10_000)])[1];
        assert!((185..=195).contains(&after), "{after}");
        // A long one no more than all time before it, of which a tenth may be used at once.
        let after = taken(&mut allowance, [(900_000, 0), (900_000, 10_000)])[1];
        assert!((370..=580).contains(&after), "{after}");
    }

    #[test]
    fn a_day_is_the_longest_of_the_shortest_windows() {
        let mut allowance = of_seconds();
        let days = 40 * 86_400;
        taken(&mut allowance, (0..days).step_by(600).map(|s| (s, 600)));
        taken(&mut allowance, [(days + 4 * 86_400, 0)]);
        let after = taken(&mut allowance, [(days + 4 * 86_400, 1_000_000)])[0];
        assert!((85_000..=86_410).contains(&after), "{after}");
        assert!(allowance.windows.later.len() <= 2 * STEPS as usize);
    }

    #[test]
    fn times_that_are_astray_cost_no_more_than_a_pause() {
        let far = 18_000_000_000;
        let mut allowance = of_seconds();
        taken(&mut allowance, (0..1000).map(|s| (s, 2)));
        taken(&mut allowance, [(far, 0)]);
        let after: u32 = taken(&mut allowance, (1000..2000).map(|s| (s, 2))).iter().sum();
        // It made an hour of nothing, of which a tenth may be used in addition.
        assert!((990..1500).contains(&after), "{after}");
    }

    #[test]
    fn little_is_little_and_another_budget_counts_at_once() {
        let mut nothing = Allowance::new(WriteBudget::PerDay(0.5));
        assert_eq!(taken(&mut nothing, (0..150).map(|s| (s * 1000, 1))).iter().sum::<u32>(), 0);
        let mut allowance = Allowance::new(WriteBudget::Any);
        assert!(allowance.is_any());
        allowance.set_budget(WriteBudget::PerDay(86_400.0));
        let first: u32 = taken(&mut allowance, (0..100).map(|s| (s, 9))).iter().sum();
        assert!((98..=101).contains(&first), "{first}");
        allowance.set_budget(WriteBudget::PerDay(8640.0));
        let sum: u32 = taken(&mut allowance, (100..1100).map(|s| (s, 9))).iter().sum();
        assert!((95..=105).contains(&sum), "{sum}");
    }
}
