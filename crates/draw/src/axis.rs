//! Axes: ranges, ticks that people would choose, and where a value lies. It must not know what is drawn along them.

use serde::Serialize;

use crate::error::{DrawError, DrawErrorKind, check_number};
use crate::limits::MIN_NUMBER;
use crate::text::{clean_name, width_px};
use crate::unit::Unit;

/// The most ticks that an axis asks for.
const MOST_TICKS: usize = 12;
/// The least share of its largest number that an axis spans, so that ticks stay apart as floating-point numbers.
const LEAST_SPAN: f64 = 1e-6;

/// How values are spread over an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Equal steps are equally long.
    Linear,
    /// Equal factors are equally long. What is not above zero is drawn at the beginning.
    Log,
}

/// One axis of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What is measured: "Cache size".
    pub label: String,
    /// How its numbers read.
    pub unit: Unit,
    /// How its numbers are spread.
    pub scale: Scale,
    /// The least range; data beyond it widens it, so that nothing is ever cut off. Without it the data decide, and a
    /// linear axis begins at zero unless all data are far from it.
    pub at_least: Option<(f64, f64)>,
    /// What one less the value is, where that is worth a look as well: "Misses of all accesses" beside hits. A page lets the
    /// reader choose.
    pub complement: Option<String>,
}

impl Axis {
    /// An axis with equal steps.
    pub fn linear(label: impl Into<String>, unit: Unit) -> Axis {
        Axis { label: label.into(), unit, scale: Scale::Linear, at_least: None, complement: None }
    }

    /// An axis with equal factors.
    pub fn log(label: impl Into<String>, unit: Unit) -> Axis {
        Axis { scale: Scale::Log, ..Axis::linear(label, unit) }
    }

    /// The axis with what one less its values is.
    pub fn with_complement(mut self, label: impl Into<String>) -> Axis {
        self.complement = Some(label.into());
        self
    }

    /// The axis with a least range.
    pub fn reaching(mut self, low: f64, high: f64) -> Axis {
        self.at_least = Some((low, high));
        self
    }
}

/// Smallest and largest value, and the smallest above zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    low: f64,
    high: f64,
    positive: f64,
}

impl Bounds {
    pub fn new() -> Bounds {
        Bounds { low: f64::INFINITY, high: f64::NEG_INFINITY, positive: f64::INFINITY }
    }

    /// Adds a value with its error on either side.
    pub fn add_with_error(&mut self, value: f64, error: f64, unit: Unit) {
        self.add(unit.within(value, value - error));
        self.add(unit.within(value, value + error));
    }

    pub fn add(&mut self, value: f64) {
        self.low = self.low.min(value);
        self.high = self.high.max(value);
        if value >= MIN_NUMBER {
            self.positive = self.positive.min(value);
        }
    }
}

/// A range of values, and whether factors or steps count in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Range {
    pub low: f64,
    pub high: f64,
    pub is_log: bool,
}

impl Range {
    /// The range that shows `bounds` on `axis`.
    pub fn of(axis: &Axis, mut bounds: Bounds) -> Result<Range, DrawError> {
        let place = || format!("the axis '{}'", clean_name(&axis.label));
        if let Some((low, high)) = axis.at_least {
            for end in [low, high] {
                check_number(end, place)?;
                bounds.add(end);
            }
        }
        let is_log = axis.scale == Scale::Log;
        let is_empty = if is_log { bounds.positive.is_infinite() } else { bounds.low.is_infinite() };
        if is_empty {
            let problem =
                if is_log { "no value is above zero; use a linear axis" } else { "there are no values" };
            return Err(DrawError::new(DrawErrorKind::Empty, place(), problem));
        }
        let (mut low, mut high) = (if is_log { bounds.positive } else { bounds.low }, bounds.high);
        let (least, most) = (axis.unit.within(low, f64::MIN), axis.unit.within(high, f64::MAX));
        if is_log {
            if high / low < 1.5 {
                (low, high) = (low / 2.0, high * 2.0);
            }
        } else {
            // From zero, unless that would press everything into a corner.
            if axis.at_least.is_none() && low > 0.0 && low < 0.6 * high {
                low = 0.0;
            }
            if axis.at_least.is_none() && high < 0.0 && high > 0.6 * low {
                high = 0.0;
            }
            let span = (LEAST_SPAN * low.abs().max(high.abs())).max(MIN_NUMBER);
            if high - low <= span {
                let more = if high.abs() <= MIN_NUMBER { 1.0 } else { 0.1 * high.abs() };
                (low, high) =
                    if low >= 0.0 { ((low - more).max(0.0), high + more) } else { (low - more, high + more) };
            }
        }
        // Nothing is drawn where no share can be.
        Ok(Range { low: low.max(least), high: high.min(most), is_log })
    }

    /// Where a value lies: 0 at the beginning, 1 at the end.
    pub fn share(&self, value: f64) -> f64 {
        match self.is_log {
            true if value <= self.low => 0.0,
            true => (value / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        }
    }
}

/// A labelled place on an axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    pub value: f64,
    pub label: String,
}

/// Multiples of a step inside the range. The flag widens the range to whole steps first.
fn linear_ticks(range: &mut Range, unit: Unit, most: usize, widens: bool) -> Vec<Tick> {
    let rough = (range.high - range.low) / most as f64;
    let step = if unit.is_binary() { binary_step(rough) } else { decimal_step(rough) };
    if widens {
        // A hair more than a whole number of steps is one: 0.1 + 0.2 is not 0.3.
        range.low = (range.low / step + 1e-9).floor() * step;
        range.high = (range.high / step - 1e-9).ceil() * step;
    }
    let first = (range.low / step - 1e-9).ceil();
    let last = (range.high / step + 1e-9).floor();
    // None, if the range lies between two multiples; a negative number becomes zero.
    let count = (last - first + 1.0) as usize;
    (0..count.min(4 * MOST_TICKS))
        .map(|at| {
            let value = (first + at as f64) * step;
            Tick { value, label: unit.show_tick(value, step) }
        })
        .collect()
}

/// The smallest 1, 2 or 5 times a power of ten that is not below `rough`.
fn decimal_step(rough: f64) -> f64 {
    let power = 10_f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= rough * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}

/// The smallest power of two that is not below `rough`.
fn binary_step(rough: f64) -> f64 {
    2_f64.powf((rough.log2() - 1e-9).ceil())
}

/// Every `stride`-th power of the base inside the range, times each mantissa.
fn log_ticks(range: &Range, unit: Unit, mantissas: &[f64], stride: i32) -> Vec<Tick> {
    let base = if unit.is_binary() { 2_f64 } else { 10.0 };
    let (low, high) = (range.low * (1.0 - 1e-9), range.high * (1.0 + 1e-9));
    let first = low.log(base).floor() as i32;
    let last = high.log(base).ceil() as i32;
    let powers = (first..=last).filter(|power| power.rem_euclid(stride) == 0);
    let values = powers.flat_map(|power| mantissas.iter().map(move |mantissa| mantissa * base.powi(power)));
    values
        .filter(|value| (low..=high).contains(value))
        .map(|value| Tick { value, label: unit.show_tick(value, value) })
        .collect()
}

/// Widens a logarithmic range to the next numbers that may be ticks: powers of two, or 1, 2 or 5 times a power of ten.
fn widen_log(range: &mut Range, unit: Unit) {
    let step = |rough| if unit.is_binary() { binary_step(rough) } else { decimal_step(rough) };
    // One over the least step above one over a number is the greatest step below it.
    (range.low, range.high) = (1.0 / step(1.0 / range.low), step(range.high));
}

/// The ticks of a logarithmic axis: the densest set that has at most `most`.
fn best_log_ticks(range: &Range, unit: Unit, most: usize) -> Vec<Tick> {
    let fine: &[&[f64]] = if unit.is_binary() { &[] } else { &[&[1.0, 2.0, 5.0], &[1.0, 3.0]] };
    let coarse = [1, 2, 5, 10, 20, 40].map(|stride| (&[1.0][..], stride));
    let sets = fine.iter().map(|mantissas| (*mantissas, 1)).chain(coarse);
    let ticks = sets
        .map(|(mantissas, stride)| log_ticks(range, unit, mantissas, stride))
        .find(|ticks| ticks.len() <= most);
    match ticks {
        Some(ticks) if ticks.len() >= 2 => ticks,
        // Less than one step of factors: count in steps.
        _ => linear_ticks(&mut range.clone(), unit, most, false),
    }
}

/// An axis at its place in the picture.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub range: Range,
    pub unit: Unit,
    pub ticks: Vec<Tick>,
    /// Where the range begins and ends, in pixels. Vertical axes begin at the larger number.
    pub from_px: f64,
    pub to_px: f64,
}

/// What a page's script needs to draw an axis anew: what was asked for, not what came of it.
#[derive(Serialize)]
pub(crate) struct AxisWish {
    label: String,
    unit: Unit,
    log: bool,
    least: Option<(f64, f64)>,
    complement: Option<String>,
}

impl AxisWish {
    pub fn of(axis: &Axis) -> AxisWish {
        AxisWish {
            label: clean_name(&axis.label),
            unit: axis.unit,
            log: axis.scale == Scale::Log,
            least: axis.at_least,
            complement: axis.complement.as_deref().map(clean_name),
        }
    }
}

/// What a page's script needs of an axis that stays.
#[derive(Serialize)]
pub(crate) struct AxisData {
    lo: f64,
    hi: f64,
    log: bool,
    from: f64,
    to: f64,
    unit: Unit,
}

impl Placed {
    /// A horizontal axis: as many ticks as fit beside each other.
    pub fn across(
        mut range: Range,
        unit: Unit,
        from_px: f64,
        to_px: f64,
        font_px: f64,
        widens: bool,
    ) -> Placed {
        let start = range;
        let mut ticks = Vec::new();
        for most in (1..=MOST_TICKS).rev() {
            range = start;
            ticks = ticks_of(&mut range, unit, most, widens);
            let at = |tick: &Tick| from_px + range.share(tick.value) * (to_px - from_px);
            let half = |tick: &Tick| width_px(&tick.label, font_px) / 2.0;
            let fits =
                |pair: &[Tick]| at(&pair[1]) - half(&pair[1]) - at(&pair[0]) - half(&pair[0]) > 1.2 * font_px;
            if ticks.windows(2).all(fits) {
                break;
            }
        }
        Placed { range, unit, ticks, from_px, to_px }
    }

    /// A vertical axis, widened to whole steps.
    pub fn upright(mut range: Range, unit: Unit, from_px: f64, to_px: f64, font_px: f64) -> Placed {
        let most = ((from_px - to_px) / (2.6 * font_px)) as usize;
        if range.is_log {
            widen_log(&mut range, unit);
        }
        let ticks = ticks_of(&mut range, unit, most.clamp(1, MOST_TICKS), true);
        Placed { range, unit, ticks, from_px, to_px }
    }

    /// Where a value lies, in pixels.
    pub fn at(&self, value: f64) -> f64 {
        self.from_px + self.range.share(value) * (self.to_px - self.from_px)
    }

    /// Width of the widest label.
    pub fn label_px(&self, font_px: f64) -> f64 {
        self.ticks.iter().map(|tick| width_px(&tick.label, font_px)).fold(0.0, f64::max)
    }

    pub fn data(&self) -> AxisData {
        AxisData {
            lo: self.range.low,
            hi: self.range.high,
            log: self.range.is_log,
            from: (self.from_px * 100.0).round() / 100.0,
            to: (self.to_px * 100.0).round() / 100.0,
            unit: self.unit,
        }
    }
}

fn ticks_of(range: &mut Range, unit: Unit, most: usize, widens: bool) -> Vec<Tick> {
    match range.is_log {
        true => best_log_ticks(range, unit, most.max(2)),
        // Shares beside percents step like decimals: the factor of 100 between them changes no step.
        false => linear_ticks(range, unit, most, widens),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn placed(axis: &Axis, values: &[f64]) -> Placed {
        let mut bounds = Bounds::new();
        values.iter().for_each(|&value| bounds.add(value));
        Placed::across(Range::of(axis, bounds).unwrap(), axis.unit, 0.0, 600.0, 12.0, true)
    }

    fn labels(axis: &Axis, values: &[f64]) -> Vec<String> {
        placed(axis, values).ticks.into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn ticks_are_those_that_people_choose() {
        let gib = 1073741824.0;
        let percent = Axis::linear("", Unit::Ratio);
        assert_eq!(labels(&percent, &[0.03, 0.97])[..3], ["0 %", "10 %", "20 %"]);
        let size = Axis::linear("", Unit::Bytes);
        assert_eq!(
            labels(&size, &[0.0, 200.0 * gib]),
            ["0", "32 GiB", "64 GiB", "96 GiB", "128 GiB", "160 GiB", "192 GiB", "224 GiB"]
        );
        let sizes = Axis::log("", Unit::Bytes);
        assert_eq!(labels(&sizes, &[1048576.0, 64.0 * gib])[..3], ["1 MiB", "4 MiB", "16 MiB"]);
        let counts = Axis::log("", Unit::Count);
        assert_eq!(labels(&counts, &[1.0, 100.0]), ["1", "2", "5", "10", "20", "50", "100"]);
        assert_eq!(
            labels(&counts, &[10.0, 12.0]).len(),
            3,
            "two values close together on a logarithmic axis"
        );
    }

    #[test]
    fn an_axis_begins_at_zero_unless_data_are_far_from_it() {
        let axis = Axis::linear("", Unit::Count);
        assert_eq!(placed(&axis, &[3.0, 10.0]).range.low, 0.0);
        assert!(placed(&axis, &[990.0, 1000.0]).range.low >= 980.0);
        let wide = placed(&axis.reaching(0.0, 1.0), &[0.2, 3.0]);
        assert!(wide.range.low == 0.0 && wide.range.high >= 3.0, "data widen the least range");
    }

    #[test]
    fn what_has_no_range_is_refused() {
        let refused = |axis: Axis, bounds| Range::of(&axis, bounds).unwrap_err().kind();
        assert_eq!(refused(Axis::linear("", Unit::Count), Bounds::new()), DrawErrorKind::Empty);
        let mut bounds = Bounds::new();
        bounds.add(0.0);
        assert_eq!(refused(Axis::log("", Unit::Count), bounds), DrawErrorKind::Empty);
        assert_eq!(
            refused(Axis::linear("", Unit::Count).reaching(0.0, f64::NAN), bounds),
            DrawErrorKind::Number
        );
    }

    proptest! {
        #[test]
        fn every_range_has_few_ticks_in_order_and_shows_its_data(
            mut values in proptest::collection::vec(prop_oneof![
                -1e30..1e30, 0.0..1.0, 1e-12..1e-9, 1.0..1e15, Just(0.0), Just(5.0), Just(5e-324), 1e-31..1e-29
            ], 1..5),
            is_log: bool,
            unit in proptest::sample::select(vec![Unit::Count, Unit::Ratio, Unit::Bytes, Unit::Years, Unit::Microseconds]),
            widens: bool,
        ) {
            if is_log {
                values.push(7.0);
            }
            let axis = if is_log { Axis::log("", unit) } else { Axis::linear("", unit) };
            let mut bounds = Bounds::new();
            values.iter().for_each(|&value| bounds.add(value));
            let range = Range::of(&axis, bounds).unwrap();
            let placed = Placed::across(range, unit, 0.0, 500.0, 12.0, widens);
            prop_assert!(placed.ticks.len() <= 2 * MOST_TICKS, "{:?}", placed.ticks);
            prop_assert!(placed.ticks.windows(2).all(|pair| pair[0].value < pair[1].value));
            for tick in &placed.ticks {
                let at = placed.at(tick.value);
                prop_assert!((-0.01..=500.01).contains(&at), "tick {} at {at}", tick.value);
            }
            for &value in &values {
                let at = placed.at(value);
                prop_assert!((-0.01..=500.01).contains(&at), "value {value} at {at}");
            }
        }
    }
}
