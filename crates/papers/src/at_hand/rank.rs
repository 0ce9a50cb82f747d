//! Whether two properties rank traces alike. It must not know which.

/// Spearman's rank correlation, from -1 to 1: Pearson's correlation of the ranks, of which equal values share the mean. None of fewer
/// than three pairs, or where all values of one side are the same.
pub(crate) fn rank_correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    if pairs.len() < 3 {
        return None;
    }
    let one = ranks(pairs.iter().map(|pair| pair.0).collect());
    let other = ranks(pairs.iter().map(|pair| pair.1).collect());
    let mean = (pairs.len() as f64 + 1.0) / 2.0;
    let product = |left: &[f64], right: &[f64]| {
        left.iter().zip(right).map(|(left, right)| (left - mean) * (right - mean)).sum::<f64>()
    };
    let spread = (product(&one, &one) * product(&other, &other)).sqrt();
    (spread > 0.0).then(|| product(&one, &other) / spread)
}

/// The rank of each value, from 1 up.
fn ranks(values: Vec<f64>) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&one, &other| values[one].total_cmp(&values[other]));
    let mut ranks = vec![0.0; values.len()];
    for equal in order.chunk_by(|&one, &other| values[one] == values[other]) {
        let first = order.iter().position(|at| *at == equal[0]).unwrap_or_default();
        let rank = first as f64 + (equal.len() as f64 + 1.0) / 2.0;
        equal.iter().for_each(|&at| ranks[at] = rank);
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rises_together_ranks_alike() {
        let of = |pairs: &[(f64, f64)]| rank_correlation(pairs).map(|r| (r * 1000.0).round() / 1000.0);
        assert_eq!(of(&[(1.0, 10.0), (2.0, 100.0), (3.0, 1000.0)]), Some(1.0));
        assert_eq!(of(&[(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)]), Some(-1.0));
        // 1 - 6 * (1 + 1 + 4 + 4) / (5 * 24), by hand.
        assert_eq!(of(&[(1.0, 2.0), (2.0, 1.0), (3.0, 5.0), (4.0, 4.0), (5.0, 3.0)]), Some(0.5));
        assert_eq!(ranks(vec![7.0, 5.0, 7.0, 9.0]), [2.5, 1.0, 2.5, 4.0]);
        assert_eq!((of(&[(1.0, 1.0), (2.0, 2.0)]), of(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)])), (None, None));
    }
}
