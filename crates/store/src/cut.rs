//! Parts of what there is for each extent, cut out of it so that several can be changed at once. It must not know what they are parts of.

use std::ops::Range;

/// Neighbours in an extent, by its number among the volume's.
#[derive(Clone, Debug)]
pub(crate) struct PartOfExtent {
    pub(crate) ordinal: usize,
    pub(crate) range: Range<usize>,
}

/// Cuts parts out of what there is for each extent. They are in ascending order and do not overlap; of an extent with nothing they have nothing.
pub(crate) fn cut<'a, T: 'a>(
    lists: impl Iterator<Item = &'a mut [T]>,
    parts: impl Iterator<Item = PartOfExtent>,
) -> Vec<&'a mut [T]> {
    let (mut parts, mut all) = (parts.peekable(), Vec::new());
    for (ordinal, list) in lists.enumerate() {
        let is_empty = list.is_empty();
        let (mut rest, mut at) = (list, 0);
        while let Some(PartOfExtent { range, .. }) = parts.next_if(|part| part.ordinal == ordinal) {
            let (before, len) = if is_empty { (0, 0) } else { (range.start - at, range.len()) };
            let (part, behind) = rest.split_at_mut(before).1.split_at_mut(len);
            all.push(part);
            (rest, at) = (behind, range.end);
        }
    }
    assert!(parts.next().is_none(), "parts are of extents that exist, in ascending order");
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_cut_out_of_each_extent() {
        let mut lists = [(0..6).collect::<Vec<u32>>(), Vec::new(), (10..14).collect()];
        let part = |ordinal, range| PartOfExtent { ordinal, range };
        let parts =
            [part(0, 1..2), part(0, 2..4), part(0, 5..6), part(1, 0..3), part(1, 4..5), part(2, 0..4)];
        let cut = cut(lists.iter_mut().map(|list| &mut list[..]), parts.into_iter());
        assert_eq!(cut, [&[1][..], &[2, 3], &[5], &[], &[], &[10, 11, 12, 13]]);
    }
}
