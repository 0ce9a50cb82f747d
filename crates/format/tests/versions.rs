//! Pages of other versions of the format: what this program does not know it does not overlook, whatever is beside it.

use lode_format::*;
use lode_types::BlockSize;

const CACHE: CacheId = CacheId([7; 16]);
const OTHERS: [u32; 2] = [0, FORMAT_VERSION + 1];

/// The same page as a program of another version would have written it.
fn of_version(page: &[u8], version: u32) -> Vec<u8> {
    let mut page = page.to_vec();
    page[12..16].copy_from_slice(&version.to_le_bytes());
    page[8..12].fill(0);
    let crc = crc32c::crc32c(&page[..PAGE_BYTES]);
    page[8..12].copy_from_slice(&crc.to_le_bytes());
    page
}

fn superblock(generation: u64) -> Vec<u8> {
    let block = BlockSize::KIB_4;
    let sizes = (64 << 20, 1 << 20);
    Superblock { cache: CACHE, generation, epoch: 9, device_bytes: sizes.0, extent_bytes: sizes.1, block }
        .encode()
        .to_vec()
}

fn pair_label(generation: u64) -> Vec<u8> {
    let (pair_bytes, device_bytes) = (8 << 20, 64 << 20);
    PairLabel {
        pair: CACHE,
        generation,
        device_bytes,
        pair_bytes,
        member: 0,
        in_sync: [true; 2],
        number: 0,
        pairs: 1,
        dropped_in: [0; 2],
        resilvered_bytes: 0,
        awaits_other: false,
    }
    .encode()
    .to_vec()
}

fn read_ssd_label() -> Vec<u8> {
    ReadSsdLabel { id: CACHE, device_bytes: 64 << 20 }.encode().to_vec()
}

/// What comes of two copies of each structure that has two.
type Newest = fn([&[u8]; 2]) -> Result<(), FormatError>;

fn with_two_copies() -> [(Newest, [Vec<u8>; 2]); 3] {
    [
        (|copies| Superblock::newest(copies).map(drop), [1, 2].map(superblock)),
        (|copies| PairLabel::newest(copies).map(drop), [1, 2].map(pair_label)),
        (|copies| ReadSsdLabel::newest(copies).map(drop), [read_ssd_label(), read_ssd_label()]),
    ]
}

fn version_of(error: &FormatError) -> Option<u32> {
    match error.wrong {
        Wrong::Version { version, cache } => {
            assert_eq!(cache, CACHE, "{error}");
            Some(version)
        }
        _ => None,
    }
}

#[test]
fn a_copy_of_another_version_counts_whatever_is_beside_it() {
    for (newest, copies) in with_two_copies() {
        assert_eq!(newest([&copies[0], &copies[1]]), Ok(()));
        let mut torn = copies[0].clone();
        torn[100] ^= 1;
        for version in OTHERS {
            let other = copies.each_ref().map(|page| of_version(page, version));
            let beside = [&copies[0][..], &torn, &[0; PAGE_BYTES], &other[1]];
            for (beside, other) in beside.iter().flat_map(|beside| [(beside, &other[0]), (beside, &other[1])])
            {
                for pages in [[*beside, other], [other, *beside]] {
                    let error = newest(pages).unwrap_err();
                    assert_eq!(version_of(&error), Some(version), "{error}");
                }
            }
            // One that is torn says nothing of its version.
            let mut torn = other[1].clone();
            torn[100] ^= 1;
            assert_eq!(newest([&copies[0], &torn]), Ok(()));
        }
    }
}

#[test]
fn a_page_of_another_version_in_a_directory_counts() {
    let (mut old, mut new) = (Directory::empty(20), Directory::empty(20));
    (old.generation, new.generation) = (5, 6);
    let copies = [&old, &new].map(|directory| directory.encode(CACHE).unwrap());
    assert_eq!(Directory::newest(CACHE, [&copies[0], &copies[1]]), Ok(new.clone()));
    let pages = Directory::COPY_BYTES / PAGE_BYTES;
    for (copy, page, version) in [(0, 0, 2), (1, 0, 2), (0, pages - 1, 0), (1, pages - 1, 2)] {
        let mut copies = copies.clone();
        let at = page * PAGE_BYTES..(page + 1) * PAGE_BYTES;
        let other = of_version(&copies[copy][at.clone()], version);
        copies[copy][at.clone()].copy_from_slice(&other);
        for copies in [[&copies[0], &copies[1]], [&copies[1], &copies[0]]] {
            let error = Directory::newest(CACHE, copies.map(|copy| &copy[..])).unwrap_err();
            assert_eq!(version_of(&error), Some(version), "copy {copy}, page {page}: {error}");
        }
        // Of another cache it is what was there before this one was made.
        let this = CacheId([8; 16]);
        let whole = new.encode(this).unwrap();
        for of_other in [[&copies[copy], &whole], [&whole, &copies[copy]]] {
            let found = Directory::newest(this, of_other.map(|copy| &copy[..]));
            assert_eq!(found, Ok(new.clone()), "copy {copy}, page {page}");
        }
    }
}

/// Of two copies that cannot be read the reason is told that says most.
#[test]
fn what_is_damaged_is_told_before_what_is_nothing() {
    for (newest, copies) in with_two_copies() {
        let mut torn = copies[0].clone();
        torn[100] ^= 1;
        for pages in [[&torn[..], &[0; PAGE_BYTES]], [&[0; PAGE_BYTES], &torn]] {
            assert_eq!(newest(pages).unwrap_err().wrong, Wrong::Checksum);
        }
        assert_eq!(newest([&[0; PAGE_BYTES]; 2]).unwrap_err().wrong, Wrong::Magic);
    }
}

#[test]
fn who_made_it_is_said() {
    for (version, words) in [(0, "an older lode"), (2, "a newer lode")] {
        let said = Superblock::decode(&of_version(&superblock(1), version)).unwrap_err().to_string();
        assert!(said.contains(words) && said.contains(&CACHE.to_string()), "{said}");
        assert!(said.contains(&format!("version {version}")), "{said}");
    }
}

#[test]
fn every_page_says_what_it_is_whatever_its_version() {
    let kinds = [(superblock(1), "cache"), (pair_label(1), "pair"), (read_ssd_label(), "read SSD")];
    for (page, what) in kinds {
        let this = PageSignature::of(&page).unwrap();
        assert!(this.is_whole && this.version == FORMAT_VERSION && this.cache == CACHE, "{this}");
        for version in OTHERS {
            let other = PageSignature::of(&of_version(&page, version)).unwrap();
            assert!(other.is_of_other_version() && !this.is_of_other_version());
            let said = other.to_string();
            let words = [what, &format!("format version {version}"), &CACHE.to_string()];
            assert!(words.iter().all(|word| said.contains(word)), "{said}");
        }
        let mut torn = of_version(&page, 2);
        torn[100] ^= 1;
        let torn = PageSignature::of(&torn).unwrap();
        assert!(!torn.is_whole && !torn.is_of_other_version(), "a torn page is not believed");
        assert!(torn.to_string().contains("damaged") && torn.to_string().contains(what), "{torn}");
    }
    assert_eq!(PageSignature::of(&[0; PAGE_BYTES]), None);
    assert_eq!(PageSignature::of(b"LODEsupr"), None);
}
