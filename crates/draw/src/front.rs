//! The points that no other point beats in both directions. It must not know what is good about them.

/// Which end of an axis is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Small numbers: cost, latency.
    Less,
    /// Large numbers: hits, years.
    More,
}

impl Goal {
    fn cost(self, value: f64) -> f64 {
        match self {
            Goal::Less => value,
            Goal::More => -value,
        }
    }
}

/// The Pareto front of `points`: those for which no other is at least as good in both coordinates and better in one. In
/// ascending order of x, equal points once. Points that are not finite are on no front.
pub fn front(points: &[(f64, f64)], x: Goal, y: Goal) -> Vec<(f64, f64)> {
    let mut sorted: Vec<(f64, f64)> =
        points.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
    sorted.sort_by(|a, b| x.cost(a.0).total_cmp(&x.cost(b.0)).then(y.cost(a.1).total_cmp(&y.cost(b.1))));
    let mut best = f64::INFINITY;
    let mut kept: Vec<(f64, f64)> = Vec::new();
    for point in sorted {
        if y.cost(point.1) < best {
            best = y.cost(point.1);
            kept.push(point);
        }
    }
    kept.sort_by(|a, b| a.0.total_cmp(&b.0));
    kept
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn beats(a: (f64, f64), b: (f64, f64), x: Goal, y: Goal) -> bool {
        let (ax, ay, bx, by) = (x.cost(a.0), y.cost(a.1), x.cost(b.0), y.cost(b.1));
        ax <= bx && ay <= by && (ax < bx || ay < by)
    }

    proptest! {
        #[test]
        fn the_front_is_what_nothing_beats(
            points in proptest::collection::vec((0..12_i32, 0..12_i32), 0..30),
            less in (any::<bool>(), any::<bool>()),
        ) {
            let goal = |less| if less { Goal::Less } else { Goal::More };
            let (x, y) = (goal(less.0), goal(less.1));
            let points: Vec<(f64, f64)> = points.into_iter().map(|(x, y)| (x.into(), y.into())).collect();
            let mut wanted: Vec<(f64, f64)> =
                points.iter().copied().filter(|&point| !points.iter().any(|&other| beats(other, point, x, y))).collect();
            wanted.sort_by(|a, b| a.0.total_cmp(&b.0));
            wanted.dedup();
            prop_assert_eq!(front(&points, x, y), wanted);
        }
    }
}
