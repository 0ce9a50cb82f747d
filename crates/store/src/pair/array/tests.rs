//! How parts of a cache are divided among its pairs, held against where each of their bytes is.

use lode_types::Rng;

use super::*;

const MIB: u64 = 1 << 20;

#[test]
fn parts_go_to_the_pairs_that_they_are_on_and_are_found_again() {
    let stripes = Stripes::new(&[4 * MIB, 9 * MIB, 6 * MIB], MIB, BlockSize::KIB_4).unwrap();
    let mut rng = Rng::new(5);
    let mut crossed = 0;
    for _ in 0..300 {
        // Neighbours that are told apart by their bytes.
        let mut end = 0;
        let parts: Vec<(u64, Vec<u8>)> = (0..1 + rng.below(12))
            .map(|number| {
                let start = end + rng.below(300) * 4096;
                end = start + (1 + rng.below(60)) * 4096;
                (start, vec![number as u8; (end - start) as usize])
            })
            .take_while(|(start, bytes)| start + bytes.len() as u64 <= stripes.size_bytes())
            .collect();
        let places = parts.iter().map(|(at, bytes)| (*at, &bytes[..]));
        let of_pairs = on_pairs(&stripes, places, <[u8]>::split_at);
        let mut pages = 0;
        for (pair, of_pair) in of_pairs.iter().enumerate() {
            for (on_pair, bytes) in &of_pair.parts {
                for at in (*on_pair..on_pair + bytes.len() as u64).step_by(4096) {
                    let in_array = of_pair.in_array(at);
                    let is_at = stripes.parts(in_array..in_array + 4096)[0];
                    assert_eq!((is_at.pair, is_at.offset_bytes), (pair, at));
                    let part = parts
                        .iter()
                        .find(|(start, bytes)| (*start..start + bytes.len() as u64).contains(&in_array));
                    assert_eq!(part.unwrap().1[0], bytes[0]);
                    pages += 1;
                }
            }
        }
        let all: usize = parts.iter().map(|(_, bytes)| bytes.len() / 4096).sum();
        assert_eq!(pages, all);
        crossed += of_pairs.iter().map(|of_pair| of_pair.parts.len()).sum::<usize>() - parts.len();
    }
    assert!(crossed > 30, "{crossed} parts were on several pairs");
}
