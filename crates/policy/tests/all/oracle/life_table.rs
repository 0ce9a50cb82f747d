//! Classes, ages and runs of blocks, as benefit-density counts them.

use std::collections::BTreeMap;

pub const AGES: usize = 48;
pub const CLASSES: usize = 78;
pub const RUN_CLASSES: usize = 9;

#[derive(Clone, Copy, Debug)]
pub struct Known {
    pub last: u64,
    pub interval: u32,
    pub accesses: u8,
    /// 0: read, 1: written, 2: written in part.
    pub kind: usize,
    pub run: usize,
    pub dirty: bool,
}

impl Known {
    pub fn class(&self) -> usize {
        if self.accesses < 2 {
            return self.kind * 4 + (self.run / 2).min(3);
        }
        let mut octave = 0;
        while self.interval >> (octave + 1) > 0 {
            octave += 1;
        }
        12 + ((octave / 2).min(10) * 3 + self.kind) * 2 + usize::from(self.accesses >= 4)
    }
}

/// The first accesses of all ages, and of one more.
fn starts() -> Vec<u64> {
    let mut starts = vec![1];
    let mut octave = 2;
    while starts.len() < AGES + 1 {
        starts.extend([octave, octave + octave / 2]);
        octave *= 2;
    }
    starts
}

pub fn age_of(accesses: u64) -> usize {
    starts()[..AGES].iter().rposition(|&start| start <= accesses).unwrap_or(0)
}

pub fn width_of(age: usize) -> f64 {
    (starts()[age + 1] - starts()[age]) as f64
}

pub fn run_class(blocks: u64) -> usize {
    (0..RUN_CLASSES - 1).find(|&class| blocks <= 1 << class).unwrap_or(RUN_CLASSES - 1)
}

pub type Table = BTreeMap<(usize, usize), f32>;

pub fn at(table: &Table, class: usize, age: usize) -> f32 {
    table.get(&(class, age)).copied().unwrap_or(0.0)
}

/// A row of shares, each averaged with its neighbours three times.
fn smoothed(mut row: Vec<f32>) -> Vec<f32> {
    for _ in 0..3 {
        let inner = row.windows(3).map(|three| three[0] / 4.0 + three[1] / 2.0 + three[2] / 4.0);
        row = [vec![row[0]], inner.collect(), vec![row[AGES - 1]]].concat();
    }
    row
}

/// Of a class's blocks of each age the part that is asked for again, and what that saves; counted were so many that were asked for again,
/// what they saved, and so many that were there. It leans on all classes the more, the less it differs from them.
pub fn leaning(
    [again, saved, at_risk]: [Vec<f64>; 3],
    all_again: &[f64],
    all_saved: &[f64],
) -> (Vec<f32>, Vec<f32>) {
    let (mut beyond, mut of, mut as_all) = (0.0, 0.0, 0.0);
    for age in 0..AGES {
        let expected = at_risk[age] * all_again[age];
        beyond += (again[age] - expected) * (again[age] - expected) - expected * (1.0 - all_again[age]);
        of += expected * expected;
        as_all += again[age] * (all_saved[age] / all_again[age]);
    }
    let difference = if of > 0.0 { (beyond / of).max(1e-6) } else { 1e-6 };
    let part = (saved.iter().sum::<f64>() + 8.0) / (as_all + 8.0);
    // Of these the class has so many more of each age.
    let more = |age: usize| ((1.0 - all_again[age]) / all_again[age] * (1.0 / difference)).max(8.0);
    let share = |age: usize, sum: f64| (sum * (1.0 / (at_risk[age] + more(age)))) as f32;
    let ending = (0..AGES).map(|age| share(age, again[age] + more(age) * all_again[age]));
    let saves = |age: usize| more(age) * all_again[age] * (all_saved[age] / all_again[age]) * part;
    let saving = (0..AGES).map(|age| share(age, saved[age] + saves(age)));
    (smoothed(ending.collect()), smoothed(saving.collect()))
}
