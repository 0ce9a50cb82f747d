//! Reassembling fixed and variable pieces from a byte stream that arrives in arbitrary slices.
//!
//! All functions take `&mut &[u8]` and move its start past what they consumed.

/// Collects exactly `N` bytes, without copying through its own buffer when they arrive in one slice.
#[derive(Debug)]
pub struct Gather<const N: usize> {
    held: [u8; N],
    count: usize,
}

impl<const N: usize> Default for Gather<N> {
    fn default() -> Self {
        Gather::new()
    }
}

impl<const N: usize> Gather<N> {
    /// Nothing yet.
    pub const fn new() -> Gather<N> {
        Gather { held: [0; N], count: 0 }
    }

    /// The next `N` bytes, or `None` once all of `input` has been taken in.
    #[inline]
    pub fn take(&mut self, input: &mut &[u8]) -> Option<[u8; N]> {
        if self.count == 0
            && let Some((whole, rest)) = input.split_first_chunk::<N>()
        {
            *input = rest;
            return Some(*whole);
        }
        self.take_in_parts(input)
    }

    fn take_in_parts(&mut self, input: &mut &[u8]) -> Option<[u8; N]> {
        let piece = split_off(input, N - self.count);
        self.held[self.count..self.count + piece.len()].copy_from_slice(piece);
        self.count += piece.len();
        if self.count < N {
            return None;
        }
        self.count = 0;
        Some(self.held)
    }
}

/// Appends to `data` until it is `wanted` bytes long; says whether it is.
pub fn fill(data: &mut Vec<u8>, wanted: usize, input: &mut &[u8]) -> bool {
    let piece = split_off(input, wanted - data.len());
    data.extend_from_slice(piece);
    data.len() == wanted
}

/// The first `most` bytes of `input`, or all of it when it is shorter.
#[inline]
pub fn split_off<'i>(input: &mut &'i [u8], most: usize) -> &'i [u8] {
    let (piece, rest) = input.split_at(most.min(input.len()));
    *input = rest;
    piece
}

/// A prefix of at most `remaining` bytes, with `remaining` reduced by its length.
#[inline]
pub fn split_payload<'i>(input: &mut &'i [u8], remaining: &mut u32) -> &'i [u8] {
    let piece = split_off(input, *remaining as usize);
    *remaining -= piece.len() as u32;
    piece
}

/// Reads big-endian fields from the front of a complete message; `None` when they are not all there.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'d>(pub &'d [u8]);

impl<'d> Fields<'d> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*field)
    }

    /// The next two bytes.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    /// The next four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// The next eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// The next `length` bytes.
    pub fn take(&mut self, length: usize) -> Option<&'d [u8]> {
        let (field, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gather_is_indifferent_to_slicing() {
        let stream: Vec<u8> = (0..23).collect();
        for step in 1..=stream.len() {
            let mut gather = Gather::<7>::new();
            let mut got = Vec::new();
            for mut piece in stream.chunks(step) {
                while let Some(bytes) = gather.take(&mut piece) {
                    got.push(bytes);
                }
                assert!(piece.is_empty());
            }
            assert_eq!(got.concat(), stream[..21], "slices of {step}");
        }
    }

    #[test]
    fn fields_stop_at_the_end() {
        let mut fields = Fields(&[0, 1, 0, 0, 0, 2, 9]);
        assert_eq!((fields.u16(), fields.u32(), fields.u16()), (Some(1), Some(2), None));
        assert_eq!((fields.take(2), fields.take(1), fields.u64()), (None, Some(&[9][..]), None));
    }
}
