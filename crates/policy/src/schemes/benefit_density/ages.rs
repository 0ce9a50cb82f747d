//! What blocks are worth by their age: how often blocks like this one, that were left alone for so long, were asked for again,
//! and how soon. A life table over the classes of [`class_of`].
//!
//! It must not know where blocks are, nor what the disk takes for them.

use std::ops::Range;

/// Ages, two to an octave: the last one has everything from 2^24 accesses on.
pub(super) const AGES: usize = 48;
/// Classes: of blocks seen once, by kind and run; of others, by interval, kind, and whether they came often.
pub(super) const CLASSES: usize = ONCE + INTERVALS * 2 * KINDS;

const KINDS: usize = 3;
const RUN_GROUPS: u8 = 4;
const ONCE: usize = KINDS * RUN_GROUPS as usize;
/// Two octaves of intervals each.
const INTERVALS: usize = 11;
/// Accesses from which on a block comes often.
const OFTEN: u8 = 4;

/// Of the blocks of an age of which nothing was seen yet so many are asked for again: as many as of all blocks were, and no
/// more than the most; but no fewer than the least, because what comes again late, as a whole disk that is read a second time,
/// gives no sign of it before.
const MOST_UNSEEN_SHARE: f64 = 0.1;
const LEAST_UNSEEN_SHARE: f64 = 0.03;
/// So many blocks of each age are taken to be as those of which nothing was seen.
const UNSEEN_BLOCKS: f64 = 4.0;
/// So many blocks of each age of a class are taken to be as those of all classes are together, at least: the more, the less the class
/// differs from all.
const LEAST_POOLED_BLOCKS: f64 = 8.0;
/// No class is taken to differ less: then it is as all are.
const LEAST_DIFFERENCE: f64 = 1e-6;
/// Of what each class saves so much is taken to be as with all classes, in units of the cost of a run.
const POOLED_SAVINGS: f64 = 8.0;
/// How often neighbouring ages are averaged.
const SMOOTHINGS: u32 = 3;
/// What is left of the counts after each estimate.
const KEPT: f32 = 0.98;

/// What was done to a block last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
    PartialWrite,
}

/// The class of a block after an access: `accesses` up to now, the last two of them `interval` apart, in a run of class `run`.
pub(super) fn class_of(accesses: u8, interval: u32, kind: Kind, run: u8) -> u8 {
    let kind = kind as u8;
    if accesses <= 1 {
        return kind * RUN_GROUPS + (run / 2).min(RUN_GROUPS - 1);
    }
    let interval = (interval.max(1).ilog2() / 2).min(INTERVALS as u32 - 1) as u8;
    ONCE as u8 + (interval * KINDS as u8 + kind) * 2 + u8::from(accesses >= OFTEN)
}

/// Columns of a table that is read by age without a comparison.
const COLUMNS: usize = 64;

/// The column for a block that was left alone for so many accesses: as a number with a fraction it has the octave in its exponent,
/// and the half in the fraction's first bit.
#[inline(always)]
fn column_of(accesses: u32) -> usize {
    const HALVES: u32 = f64::MANTISSA_DIGITS - 2;
    const FIRST: u64 = 1.0f64.to_bits() >> HALVES;
    let halves = f64::from(accesses.max(1)).to_bits() >> HALVES;
    halves.wrapping_sub(FIRST) as usize % COLUMNS
}

/// The age in a column: of 1 access, and from 2 on.
#[inline(always)]
fn age_in(column: usize) -> usize {
    column.saturating_sub(1).min(AGES - 1)
}

/// The age of a block that was left alone for so many accesses.
#[inline(always)]
pub(super) fn age_of(accesses: u32) -> usize {
    age_in(column_of(accesses))
}

/// The fewest accesses of an age.
const fn start_of(age: usize) -> u64 {
    if age == 0 { 1 } else { (2 + (age as u64 - 1) % 2) << ((age - 1) / 2) }
}

/// Accesses from the start of each age to its end.
const WIDTHS: [f64; AGES] = {
    let mut widths = [0.0; AGES];
    let mut age = 0;
    while age < AGES {
        widths[age] = (start_of(age + 1) - start_of(age)) as f64;
        age += 1;
    }
    widths
};

/// The greater of two numbers, without the care that [`f64::max`] takes of what is none.
#[inline(always)]
fn greater(a: f64, b: f64) -> f64 {
    if b > a { b } else { a }
}

/// Numbers by class and age.
type Table = Vec<f32>;

#[inline(always)]
fn cell(class: u8, age: usize) -> usize {
    usize::from(class) * AGES + age
}

/// Where a class has its numbers.
#[inline(always)]
fn row_of(class: u8) -> Range<usize> {
    let start = cell(class, 0);
    start..start + AGES
}

/// By age, the one that a block of it does not come to if nothing stays longer than `horizon` accesses.
fn ends_of(horizon: f64) -> [u8; AGES] {
    std::array::from_fn(|age| {
        let mut elapsed = WIDTHS[age];
        let later = WIDTHS[age + 1..].iter().take_while(|&width| {
            elapsed += width;
            elapsed <= horizon
        });
        (age + 1 + later.count()) as u8
    })
}

/// Of all classes.
struct Pooled {
    /// By age, of the blocks in the middle of it: how many are asked for again, how many times as many are not, and what each of the former
    /// saves.
    again: [f64; AGES],
    odds: [f64; AGES],
    each: [f64; AGES],
}

/// The counts, and what follows from them.
#[derive(Debug)]
pub(super) struct Ages {
    /// Blocks that were asked for again at this age, that were forgotten, and what the former saved, in units of the cost of
    /// their run.
    again: Table,
    forgotten: Table,
    saved: Table,
    /// Of the blocks that come to an age: how many of them are asked for again before the next one, and what that saves.
    ending: Table,
    saving: Table,
    /// See [`Ages::density`].
    density: Vec<[f32; COLUMNS]>,
    /// By age, the one that a block of it is not expected to come to.
    ends: [u8; AGES],
}

impl Ages {
    pub(super) fn new() -> Ages {
        let table = || vec![0.0; CLASSES * AGES];
        let (again, forgotten, saved) = (table(), table(), table());
        let (ending, saving, density) = (table(), table(), vec![[0.0; COLUMNS]; CLASSES]);
        Ages { again, forgotten, saved, ending, saving, density, ends: ends_of(0.0) }
    }

    /// A block was asked for again. Says where [`Ages::note_saved`] counts what that saved.
    #[inline]
    pub(super) fn note_again(&mut self, class: u8, accesses: u32) -> usize {
        let at = cell(class, age_of(accesses));
        self.again[at] += 1.0;
        at
    }

    pub(super) fn note_saved(&mut self, at: usize, saved: f64) {
        self.saved[at] += saved as f32;
    }

    /// A block was forgotten.
    pub(super) fn note_forgotten(&mut self, class: u8, accesses: u32) {
        self.forgotten[cell(class, age_of(accesses))] += 1.0;
    }

    /// What an access saves by a block of this class and age, for each access that it keeps its place, in units of its run's
    /// cost: over the time ahead for which that is most, up to the horizon.
    #[inline(always)]
    pub(super) fn density(&self, class: u8, accesses: u32) -> f64 {
        f64::from(self.density[usize::from(class)][column_of(accesses)])
    }

    /// What a block saves beyond what its place would save otherwise, at `rate` for each access, over the time ahead for which
    /// that is most, up to the horizon; an access to it saves `cost`.
    pub(super) fn surplus(&self, class: u8, accesses: u32, cost: f64, rate: f64) -> f64 {
        let mut most = 0.0f64;
        self.ahead(class, age_of(accesses), |saved, stay| most = greater(most, cost * saved - rate * stay));
        most
    }

    /// Expected saving and stay of a block of this age until each later one, up to the horizon.
    #[inline(always)]
    fn ahead(&self, class: u8, age: usize, mut each: impl FnMut(f64, f64)) {
        /// So few are left that the rest does not count.
        const FEW: f64 = 0.001;
        let ages = age..usize::from(self.ends[age]);
        let row = row_of(class);
        let endings = &self.ending[row.clone()][ages.clone()];
        let savings = &self.saving[row][ages.clone()];
        let (mut left, mut saved, mut stay) = (1.0, 0.0, 0.0);
        for ((&width, &ending), &saving) in WIDTHS[ages].iter().zip(endings).zip(savings) {
            if left < FEW {
                break;
            }
            let ending = f64::from(ending);
            // Those that end do so in the middle of the age, on average.
            let there = left * (1.0 - ending / 2.0);
            saved += there * f64::from(saving);
            stay += there * width;
            left *= 1.0 - ending;
            each(saved, stay);
        }
    }

    /// Estimates everything anew. `live` are the blocks that are known now, by class and accesses since the last, each for
    /// `weight` of them. Nothing stays longer than `horizon` accesses.
    pub(super) fn estimate(&mut self, live: impl Iterator<Item = (u8, u32)>, weight: f32, horizon: f64) {
        self.ends = ends_of(horizon);
        let mut at_risk = self.forgotten.clone();
        live.for_each(|(class, accesses)| at_risk[cell(class, age_of(accesses))] += weight);
        let is_seen = |&class: &u8| {
            [&self.again, &self.saved, &at_risk]
                .iter()
                .any(|table| table[row_of(class)].iter().any(|&count| count != 0.0))
        };
        let (seen, unseen): (Vec<u8>, Vec<u8>) = (0..CLASSES as u8).partition(is_seen);
        let unseen_share = self.unseen_share(&at_risk, &seen);
        self.count_at_risk(&mut at_risk, &seen);
        let pooled = self.pooled(&at_risk, unseen_share, &seen);
        seen.iter().for_each(|&class| self.estimate_class(class, &at_risk, &pooled));
        // Of these nothing was counted, so that they are all alike.
        if let Some((&first, others)) = unseen.split_first() {
            self.estimate_class(first, &at_risk, &pooled);
            for &other in others {
                for table in [&mut self.ending, &mut self.saving] {
                    table.copy_within(row_of(first), row_of(other).start);
                }
                self.density[usize::from(other)] = self.density[usize::from(first)];
            }
        }
        for table in [&mut self.again, &mut self.forgotten, &mut self.saved] {
            table.iter_mut().for_each(|count| *count *= KEPT);
        }
    }

    /// Estimates a class anew, of which so many blocks were there in the middle of each age.
    fn estimate_class(&mut self, class: u8, at_risk: &Table, pooled: &Pooled) {
        let row = row_of(class);
        // With so many shares vary by chance as much as classes do.
        let blocks_for_odds = 1.0 / greater(self.difference(class, at_risk, pooled), LEAST_DIFFERENCE);
        let part = self.saving_part(class, pooled);
        for (age, at) in row.clone().enumerate() {
            let blocks = greater(pooled.odds[age] * blocks_for_odds, LEAST_POOLED_BLOCKS);
            let of_each = 1.0 / (f64::from(at_risk[at]) + blocks);
            let again = blocks * pooled.again[age];
            self.ending[at] = ((f64::from(self.again[at]) + again) * of_each) as f32;
            self.saving[at] =
                ((f64::from(self.saved[at]) + again * pooled.each[age] * part) * of_each) as f32;
        }
        for table in [&mut self.ending, &mut self.saving] {
            (0..SMOOTHINGS).for_each(|_| smooth(&mut table[row.clone()]));
        }
        for ending in &mut self.ending[row] {
            // As many a block of those that are there in the middle are fewer of those at the start.
            *ending /= 1.0 + *ending / 2.0;
        }
        let densities: [f32; AGES] = std::array::from_fn(|age| {
            let mut most = 0.0f64;
            self.ahead(class, age, |saved, stay| most = greater(most, saved / stay));
            most as f32
        });
        self.density[usize::from(class)] = std::array::from_fn(|column| densities[age_in(column)]);
    }

    /// How far the shares of a class that are asked for again vary about those of all classes, beyond what chance explains: the variance of
    /// their ratio.
    fn difference(&self, class: u8, at_risk: &Table, pooled: &Pooled) -> f64 {
        let (mut beyond, mut of) = (0.0, 0.0);
        for (at, &share) in row_of(class).zip(&pooled.again) {
            let expected = f64::from(at_risk[at]) * share;
            let apart = f64::from(self.again[at]) - expected;
            beyond += apart * apart - expected * (1.0 - share);
            of += expected * expected;
        }
        if of > 0.0 { (beyond / of).max(0.0) } else { 0.0 }
    }

    /// What blocks of a class save when they are asked for again, as a part of what those of all classes do.
    fn saving_part(&self, class: u8, pooled: &Pooled) -> f64 {
        let (mut saved, mut as_all) = (0.0, 0.0);
        for (at, each) in row_of(class).zip(&pooled.each) {
            saved += f64::from(self.saved[at]);
            as_all += f64::from(self.again[at]) * each;
        }
        (saved + POOLED_SAVINGS) / (as_all + POOLED_SAVINGS)
    }

    /// Makes of the blocks that were last seen at each age without being asked for again those that were there in the middle
    /// of it.
    fn count_at_risk(&self, at_risk: &mut Table, seen: &[u8]) {
        for &class in seen {
            let mut older = 0.0;
            for age in (0..AGES).rev() {
                let ended = at_risk[cell(class, age)] + self.again[cell(class, age)];
                at_risk[cell(class, age)] = older + ended / 2.0;
                older += ended;
            }
        }
    }

    /// See [`MOST_UNSEEN_SHARE`]. `not_again` are the blocks that were not asked for again.
    fn unseen_share(&self, not_again: &Table, seen: &[u8]) -> f64 {
        let sum = |table: &Table| -> f64 {
            seen.iter().flat_map(|&class| &table[row_of(class)]).map(|&count| f64::from(count)).sum()
        };
        let again = sum(&self.again);
        (again / (again + sum(not_again)).max(1.0)).clamp(LEAST_UNSEEN_SHARE, MOST_UNSEEN_SHARE)
    }

    /// For the blocks of all classes, of which these were seen.
    fn pooled(&self, at_risk: &Table, unseen_share: f64, seen: &[u8]) -> Pooled {
        let of_all = |table: &Table, age: usize| {
            seen.iter().map(|&class| f64::from(table[cell(class, age)])).sum::<f64>()
        };
        let share = |table: &Table, age: usize| {
            (of_all(table, age) + UNSEEN_BLOCKS * unseen_share) / (of_all(at_risk, age) + UNSEEN_BLOCKS)
        };
        let again: [f64; AGES] = std::array::from_fn(|age| share(&self.again, age));
        let odds = again.map(|again| (1.0 - again) / again);
        Pooled { again, odds, each: std::array::from_fn(|age| share(&self.saved, age) / again[age]) }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let tables = [&self.again, &self.forgotten, &self.saved, &self.ending, &self.saving];
        tables.iter().map(|table| table.capacity() * size_of::<f32>()).sum::<usize>()
            + self.density.capacity() * size_of::<[f32; COLUMNS]>()
    }
}

/// Averages each age but the first and the last with its neighbours.
fn smooth(row: &mut [f32]) {
    let mut before = row[0];
    for age in 1..row.len() - 1 {
        let here = row[age];
        row[age] = before / 4.0 + here / 2.0 + row[age + 1] / 4.0;
        before = here;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_follow_each_other() {
        let starts: Vec<u64> = (0..8).map(start_of).collect();
        assert_eq!(starts, [1, 2, 3, 4, 6, 8, 12, 16]);
        for accesses in 1..5000 {
            let age = age_of(accesses);
            assert!((start_of(age)..start_of(age + 1)).contains(&accesses.into()), "{accesses}");
        }
        assert_eq!((age_of(0), age_of(u32::MAX)), (0, AGES - 1));
    }

    #[test]
    fn every_class_has_its_number() {
        let mut seen = std::collections::BTreeSet::new();
        for kind in [Kind::Read, Kind::Write, Kind::PartialWrite] {
            for run in [0, 2, 4, 6, 8] {
                seen.insert(class_of(1, 0, kind, run));
            }
            for octave in 0..32 {
                for accesses in [2, OFTEN] {
                    seen.insert(class_of(accesses, 1 << octave, kind, 0));
                }
            }
        }
        assert!(seen.into_iter().eq(0..CLASSES as u8));
    }

    /// Blocks that come again after 100 accesses are worth more the nearer that is, and nothing after it.
    #[test]
    fn a_loop_is_worth_most_just_before_it_closes() {
        let mut ages = Ages::new();
        for _ in 0..10_000 {
            let at = ages.note_again(0, 100);
            ages.note_saved(at, 1.0);
        }
        ages.estimate(std::iter::empty(), 1.0, 1000.0);
        let density = |accesses| ages.density(0, accesses);
        assert!(density(1) < density(32) && density(32) < density(90), "{} {}", density(1), density(32));
        assert!(density(400) < density(1), "{} {}", density(400), density(1));
        // All of the saving is ahead, less what its place would save meanwhile.
        let surplus = ages.surplus(0, 1, 1000.0, 1.0);
        assert!((700.0..1000.0).contains(&surplus), "{surplus}");
        assert_eq!(ages.surplus(0, 1, 1000.0, 100.0), 0.0);
    }

    /// An age that nothing has come to is taken for what is known of all others.
    #[test]
    fn where_nothing_comes_again_older_blocks_are_not_expected_to_either() {
        let surplus_after = |again: u32, forgotten: u32| {
            let mut ages = Ages::new();
            for _ in 0..again {
                let at = ages.note_again(0, 8);
                ages.note_saved(at, 1.0);
            }
            (0..forgotten).for_each(|_| ages.note_forgotten(0, 8));
            ages.estimate(std::iter::empty(), 1.0, 1e5);
            // Of a block older than all that were seen.
            ages.surplus(0, 1000, 1000.0, 0.0)
        };
        let (none, few, many) =
            (surplus_after(0, 10_000), surplus_after(500, 9500), surplus_after(5000, 5000));
        assert!(none < few && few < many, "{none} {few} {many}");
        // In each of 14 half octaves ahead the least share, or the most.
        assert!((300.0..450.0).contains(&none) && (600.0..850.0).contains(&many), "{none} {many}");
    }

    #[test]
    fn what_is_never_asked_for_again_is_worth_nothing() {
        let mut ages = Ages::new();
        for _ in 0..10_000 {
            ages.note_forgotten(0, 1000);
        }
        ages.estimate(std::iter::repeat_n((0, 10), 100), 1.0, 1000.0);
        // But for what comes after the oldest.
        let surplus = ages.surplus(0, 1, 8000.0, 0.0);
        assert!(surplus < 0.02 * 8000.0, "{surplus}");
        // A class of which nothing was seen is as all are.
        assert!(ages.density(1, 1) >= ages.density(0, 1));
    }

    #[test]
    fn a_class_leans_on_all_the_less_the_more_it_differs() {
        let surpluses = |again: u32| {
            let mut ages = Ages::new();
            for (class, blocks, again) in [(0, 10_000, 5000), (1, 200, again)] {
                for _ in 0..again {
                    let at = ages.note_again(class, 8);
                    ages.note_saved(at, 1.0);
                }
                (again..blocks).for_each(|_| ages.note_forgotten(class, 8));
            }
            ages.estimate(std::iter::empty(), 1.0, 16.0);
            [0, 1].map(|class| ages.surplus(class, 1, 1000.0, 0.0))
        };
        let ([all, alike], [_, other]) = (surpluses(100), surpluses(0));
        assert!((alike / all - 1.0).abs() < 0.02 && other < all / 3.0, "{all} {alike} {other}");
    }
}
