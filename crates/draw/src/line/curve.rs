//! A series as the corners of its drawn line. It must not know colours and names.

use super::{Series, Shape};
use crate::axis::Placed;
use crate::svg::{path_data, to_hundredths};

/// A point that moves a line by less than this, in hundredths of a pixel, is left out: nobody sees it, and a curve of a
/// million points stays small.
const TOLERANCE: i64 = 15;

/// Corners in hundredths of a pixel, x ascending unless the points are not joined.
pub(crate) struct Curve {
    corners: Vec<(i64, i64)>,
    /// How many corners at the beginning are not joined with the next one: a logarithmic axis has no place for zero, and
    /// a line from there to its edge would be no slope that the data have.
    unjoined: usize,
}

impl Curve {
    pub fn of(series: &Series, x: &Placed, y: &Placed) -> Curve {
        let points = series.points.iter().map(|&point| place(point, x, y));
        let corners = match series.shape {
            Shape::Steps => steps(points, to_hundredths(x.to_px), TOLERANCE),
            Shape::Lines => thinned(points, TOLERANCE),
            Shape::Points => points.collect(),
        };
        let has_zero = x.range.is_log && series.points.first().is_some_and(|point| point.0 <= 0.0);
        let edge = corners.first().map_or(0, |first| first.0);
        let at_edge = corners.iter().take_while(|corner| corner.0 == edge).count();
        let unjoined = if has_zero { at_edge.saturating_sub(1) } else { 0 };
        Curve { corners, unjoined }
    }

    /// Height at `value` of the axis, which is at `px`: like [`Curve::y_at`], but what lies before a logarithmic axis is
    /// where the curve begins.
    pub fn y_of(&self, value: f64, px: i64, x: &Placed) -> Option<i64> {
        if x.range.is_log && value <= 0.0 {
            self.corners.first().map(|corner| corner.1)
        } else {
            self.y_at(px)
        }
    }

    /// Height at `px`, all in hundredths of a pixel; beyond the ends that of the end. None without points.
    pub fn y_at(&self, px: i64) -> Option<i64> {
        let after = self.corners.partition_point(|corner| corner.0 <= px);
        let next = self.corners.get(after);
        let Some(&(x, y)) = after.checked_sub(1).and_then(|last| self.corners.get(last)) else {
            return next.map(|corner| corner.1);
        };
        match next {
            Some(&(to_x, to_y)) => {
                let share = (px - x) as f64 / (to_x - x) as f64;
                Some(y + ((to_y - y) as f64 * share).round() as i64)
            }
            None => Some(y),
        }
    }

    pub fn corners(&self) -> &[(i64, i64)] {
        &self.corners
    }

    pub fn path_data(&self) -> String {
        let (unjoined, joined) = self.corners.split_at(self.unjoined);
        let mut data: String = unjoined.iter().map(|&corner| path_data(&[corner])).collect();
        data.push_str(&path_data(joined));
        data
    }
}

/// The outline of the band around a series with errors.
pub(crate) fn band(series: &Series, x: &Placed, y: &Placed) -> String {
    let side = |sign: f64| {
        let moved = series
            .points
            .iter()
            .zip(&series.errors)
            .map(|(&(at, value), error)| (at, y.unit.within(value, value + sign * error)));
        let points = moved.map(|point| place(point, x, y));
        match series.shape {
            Shape::Steps => steps(points, to_hundredths(x.to_px), 0),
            Shape::Lines | Shape::Points => points.collect(),
        }
    };
    let mut outline = side(1.0);
    outline.extend(side(-1.0).into_iter().rev());
    path_data(&outline) + "z"
}

fn place((at, value): (f64, f64), x: &Placed, y: &Placed) -> (i64, i64) {
    (to_hundredths(x.at(at)), to_hundredths(y.at(value)))
}

/// The corners of a staircase up to `end`. Between two corners it is nowhere more than `tolerance` off.
fn steps(points: impl Iterator<Item = (i64, i64)>, end: i64, tolerance: i64) -> Vec<(i64, i64)> {
    let mut corners: Vec<(i64, i64)> = Vec::new();
    let mut left_out = None;
    for (x, y) in points {
        let Some(&(_, level)) = corners.last() else {
            corners.push((x, y));
            continue;
        };
        left_out = Some((x, y));
        if (y - level).abs() > tolerance {
            corners.extend([(x, level), (x, y)]);
            left_out = None;
        }
    }
    if let (Some((x, y)), Some(&(_, level))) = (left_out, corners.last())
        && y != level
    {
        corners.extend([(x, level), (x, y)]);
    }
    if let Some(&(x, level)) = corners.last()
        && x < end
    {
        corners.push((end, level));
    }
    corners
}

/// Points without those next to the one before.
fn thinned(points: impl Iterator<Item = (i64, i64)>, tolerance: i64) -> Vec<(i64, i64)> {
    let mut kept: Vec<(i64, i64)> = Vec::new();
    let mut left_out = None;
    for (x, y) in points {
        match kept.last() {
            Some(last) if (x - last.0).abs().max((y - last.1).abs()) < tolerance => left_out = Some((x, y)),
            _ => {
                kept.push((x, y));
                left_out = None;
            }
        }
    }
    kept.extend(left_out);
    kept
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn joined(corners: Vec<(i64, i64)>) -> Curve {
        Curve { corners, unjoined: 0 }
    }

    /// The obvious height of a staircase: that of the last point not after `px`.
    fn step_at(points: &[(i64, i64)], px: i64) -> i64 {
        points.iter().rev().find(|point| point.0 <= px).unwrap_or(&points[0]).1
    }

    fn line_at(points: &[(i64, i64)], px: i64) -> f64 {
        let Some(last) = points.iter().rposition(|point| point.0 <= px) else { return points[0].1 as f64 };
        let Some(&(to_x, to_y)) = points.get(last + 1) else { return points[last].1 as f64 };
        let (x, y) = points[last];
        y as f64 + (to_y - y) as f64 * (px - x) as f64 / (to_x - x) as f64
    }

    fn points() -> impl Strategy<Value = Vec<(i64, i64)>> {
        proptest::collection::vec((0..40_i64, -30..30_i64), 1..40).prop_map(|moves| {
            let mut at = (0, 0);
            let step = |(dx, dy)| {
                at = (at.0 + dx, at.1 + dy);
                at
            };
            moves.into_iter().map(step).collect()
        })
    }

    #[test]
    fn zero_is_not_joined_with_the_edge_of_a_logarithmic_axis() {
        let mut series = Series::new("", Shape::Steps, vec![(0.0, 0.0), (1.0, 50.0), (10.0, 100.0)]);
        let range = |is_log| crate::axis::Range { low: if is_log { 1.0 } else { 0.0 }, high: 100.0, is_log };
        let across = |is_log| Placed::across(range(is_log), crate::Unit::Count, 10.0, 210.0, 10.0, false);
        let upright = Placed::upright(range(false), crate::Unit::Count, 100.0, 0.0, 10.0);
        let curve = Curve::of(&series, &across(true), &upright);
        assert_eq!(curve.path_data(), "M10 100M10 100M10 50h100v-50h100");
        assert_eq!(curve.y_of(0.0, 1000, &across(true)), Some(10000), "nothing given hits nothing");
        assert_eq!(curve.y_of(1.0, 1000, &across(true)), Some(5000));
        assert_eq!(Curve::of(&series, &across(false), &upright).path_data(), "M10 100h2v-50h18v-50h180");
        series.points.remove(0);
        assert_eq!(Curve::of(&series, &across(true), &upright).path_data(), "M10 50h100v-50h100");
    }

    proptest! {
        #[test]
        fn a_drawn_staircase_is_nowhere_off_by_more_than_the_tolerance(points in points(), px in 0..1700_i64) {
            let curve = joined(steps(points.iter().copied(), 1700, TOLERANCE));
            prop_assert!((curve.y_at(px).unwrap() - step_at(&points, px)).abs() <= TOLERANCE);
            let exact = joined(steps(points.iter().copied(), 1700, 0));
            prop_assert_eq!(exact.y_at(px).unwrap(), step_at(&points, px));
        }

        #[test]
        fn thinned_lines_keep_their_ends_and_stay_near(points in points()) {
            let curve = joined(thinned(points.iter().copied(), TOLERANCE));
            prop_assert_eq!(curve.corners.first(), points.first());
            prop_assert_eq!(curve.corners.last(), points.last());
            for point in &points {
                let near = curve.corners.iter().any(|c| (c.0 - point.0).abs().max((c.1 - point.1).abs()) < TOLERANCE);
                prop_assert!(near, "{point:?} is far from all that was kept");
            }
        }

        #[test]
        fn heights_lie_on_the_line(points in points(), px in 0..1700_i64) {
            let curve = joined(points.clone());
            prop_assert!((curve.y_at(px).unwrap() as f64 - line_at(&points, px)).abs() <= 0.5);
        }
    }
}
