//! How lists grow that have something for each block of a level: by a sixteenth, because as much again would be as much memory
//! that nobody uses. It must not know what is in them.

/// Elements of the first step.
const FIRST: usize = 64;

/// Room for one more.
pub(crate) fn make_room<T>(list: &mut Vec<T>) {
    if list.len() == list.capacity() {
        list.reserve_exact((list.len() / 16).max(FIRST));
    }
}

/// Bytes of such a list of so many elements, at most.
pub(crate) fn most_bytes<T>(elements: u64) -> u64 {
    let spare = if elements == 0 { 0 } else { (elements / 16).max(FIRST as u64) };
    (elements + spare) * size_of::<T>() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_is_spare() {
        let mut list = Vec::new();
        for at in 0..100_000u32 {
            make_room(&mut list);
            list.push(at);
            assert!(list.capacity() as u64 * 4 <= most_bytes::<u32>(u64::from(at) + 1));
        }
    }
}
