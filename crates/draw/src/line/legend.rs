//! Places for labels so that none covers another. It must not know what is labelled.

/// Places labels of height `height` as near as possible to where they should be, in the same order, without overlaps, between
/// `top` and `bottom`. Positions are the labels' centres, `wanted` ascending. If they do not all fit, they overlap evenly;
/// callers leave some out before.
///
/// The least sum of squared moves: labels that collide move together as one block around their mean, as in isotonic
/// regression by pooling adjacent violators.
pub(crate) fn spread(wanted: &[f64], height: f64, top: f64, bottom: f64) -> Vec<f64> {
    let height = height.min((bottom - top) / wanted.len().max(1) as f64);
    // With each label moved up by those before it, "no overlap" becomes "not descending".
    let mut blocks: Vec<(f64, usize)> = Vec::new();
    for (at, want) in wanted.iter().enumerate() {
        let mut block = (want - at as f64 * height, 1);
        while let Some(&(mean, count)) = blocks.last()
            && mean > block.0
        {
            let total = count + block.1;
            block = ((mean * count as f64 + block.0 * block.1 as f64) / total as f64, total);
            blocks.pop();
        }
        blocks.push(block);
    }
    let least = top + height / 2.0;
    let most = bottom - height / 2.0 - height * wanted.len().saturating_sub(1) as f64;
    let means =
        blocks.iter().flat_map(|&(mean, count)| std::iter::repeat_n(mean.min(most).max(least), count));
    means.enumerate().map(|(at, mean)| mean + at as f64 * height).collect()
}

/// Breaks entries of these widths into rows of at most `width`; gives each its row and where it begins.
pub(crate) fn flow(widths: &[f64], width: f64) -> Vec<(usize, f64)> {
    let (mut row, mut x) = (0, 0.0);
    widths
        .iter()
        .map(|entry| {
            if x > 0.0 && x + entry > width {
                (row, x) = (row + 1, 0.0);
            }
            let place = (row, x);
            x += entry;
            place
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn labels_that_do_not_collide_stay() {
        assert_eq!(spread(&[10.0, 50.0, 90.0], 10.0, 0.0, 100.0), [10.0, 50.0, 90.0]);
        assert_eq!(spread(&[50.0, 50.0], 10.0, 0.0, 100.0), [45.0, 55.0]);
        assert_eq!(spread(&[], 10.0, 0.0, 100.0), [0.0; 0]);
    }

    #[test]
    fn rows_break_where_they_are_full() {
        let flowed = flow(&[40.0, 40.0, 40.0, 200.0, 10.0], 100.0);
        assert_eq!(flowed, [(0, 0.0), (0, 40.0), (1, 0.0), (2, 0.0), (3, 0.0)]);
    }

    proptest! {
        #[test]
        fn labels_keep_their_order_their_distance_and_the_frame(mut wanted in proptest::collection::vec(-20.0..120.0, 0..10)) {
            wanted.sort_by(f64::total_cmp);
            let places = spread(&wanted, 10.0, 0.0, 100.0);
            prop_assert_eq!(places.len(), wanted.len());
            prop_assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= 10.0 - 1e-9), "{places:?}");
            prop_assert!(places.iter().all(|place| (5.0 - 1e-9..=95.0 + 1e-9).contains(place)), "{places:?}");
        }
    }
}
