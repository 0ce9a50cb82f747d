//! When requests come. It must not know what they ask.

use lode_types::Rng;

use crate::alias::Alias;
use crate::profile::Arrival;

const NS_PER_S: f64 = 1e9;
const NS_PER_US: f64 = 1e3;
/// A time drawn from a list is from this share of the mean on, and as far above it as below.
const GAP_FROM: f64 = 2.0 / 3.0;

/// Draws the time from one request to the next.
#[derive(Clone, Debug)]
pub(crate) enum Clock {
    Constant { gap_ns: f64 },
    Poisson { gap_ns: f64 },
    OnOff { gap_ns: f64, on_ns: f64, off_ns: f64, left_ns: f64 },
    Gaps { alias: Alias, means_ns: Vec<f64> },
}

impl Clock {
    pub(crate) fn new(arrival: &Arrival) -> Clock {
        match arrival {
            Arrival::Constant { requests_per_s } => Clock::Constant { gap_ns: NS_PER_S / requests_per_s },
            Arrival::Poisson { requests_per_s } => Clock::Poisson { gap_ns: NS_PER_S / requests_per_s },
            Arrival::OnOff { requests_per_s, on_s, off_s } => Clock::OnOff {
                gap_ns: NS_PER_S / requests_per_s,
                on_ns: on_s * NS_PER_S,
                off_ns: off_s * NS_PER_S,
                left_ns: 0.0,
            },
            Arrival::Gaps { gaps_us } => Clock::Gaps {
                alias: Alias::new(&gaps_us.iter().map(|&(_, weight)| weight).collect::<Vec<_>>()),
                means_ns: gaps_us.iter().map(|&(mean_us, _)| mean_us * NS_PER_US).collect(),
            },
        }
    }

    /// Nanoseconds to the next request.
    #[inline]
    pub(crate) fn gap_ns(&mut self, rng: &mut Rng) -> f64 {
        match self {
            Clock::Constant { gap_ns } => *gap_ns,
            Clock::Poisson { gap_ns } => exponential(rng, *gap_ns),
            Clock::OnOff { gap_ns, on_ns, off_ns, left_ns } => {
                let mut passed_ns = 0.0;
                loop {
                    // What is left of a burst says nothing of when the next request comes, so that drawing again is fair.
                    let next_ns = exponential(rng, *gap_ns);
                    if next_ns <= *left_ns {
                        *left_ns -= next_ns;
                        return passed_ns + next_ns;
                    }
                    passed_ns += *left_ns + exponential(rng, *off_ns);
                    *left_ns = exponential(rng, *on_ns);
                }
            }
            Clock::Gaps { alias, means_ns } => {
                let mean_ns = means_ns[alias.draw(rng)];
                mean_ns * (GAP_FROM + 2.0 * (1.0 - GAP_FROM) * rng.unit())
            }
        }
    }
}

/// An exponentially distributed number with this mean. The logarithm is the `libm` crate's, whose results do not depend on
/// the machine.
#[inline]
fn exponential(rng: &mut Rng, mean: f64) -> f64 {
    -mean * libm::log(1.0 - rng.unit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps(arrival: &Arrival) -> Vec<f64> {
        let (mut clock, mut rng) = (Clock::new(arrival), Rng::new(3));
        (0..50_000).map(|_| clock.gap_ns(&mut rng)).collect()
    }

    fn mean(numbers: &[f64]) -> f64 {
        numbers.iter().sum::<f64>() / numbers.len() as f64
    }

    /// Standard deviation for each mean: 0 of constant gaps, 1 of Poisson's, above 1 of bursts.
    fn variation(numbers: &[f64]) -> f64 {
        let mean = mean(numbers);
        let square = |gap: &f64| (gap - mean) * (gap - mean);
        (numbers.iter().map(square).sum::<f64>() / numbers.len() as f64).sqrt() / mean
    }

    #[test]
    fn gaps_have_their_mean_and_variation() {
        let constant = gaps(&Arrival::Constant { requests_per_s: 1000.0 });
        assert!(constant.iter().all(|&gap| gap == 1e6));
        let poisson = gaps(&Arrival::Poisson { requests_per_s: 1000.0 });
        assert!((mean(&poisson) / 1e6 - 1.0).abs() < 0.02 && (variation(&poisson) - 1.0).abs() < 0.03);
        // Bursts of 0.1 s and silences of 0.3 s: a quarter of the rate.
        let bursts = gaps(&Arrival::OnOff { requests_per_s: 1000.0, on_s: 0.1, off_s: 0.3 });
        assert!((mean(&bursts) / 4e6 - 1.0).abs() < 0.1, "{}", mean(&bursts));
        assert!(variation(&bursts) > 5.0, "{}", variation(&bursts));
        let listed = gaps(&Arrival::Gaps { gaps_us: vec![(0.0, 1.0), (3.0, 1.0), (3000.0, 2.0)] });
        assert!((mean(&listed) / 1_500_750.0 - 1.0).abs() < 0.02);
        assert!(
            listed.iter().all(|&gap| gap == 0.0 || (2e3..=4e3).contains(&gap) || (2e6..=4e6).contains(&gap))
        );
    }
}
