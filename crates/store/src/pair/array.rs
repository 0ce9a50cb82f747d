//! A cache on one or several pairs as starts see it: one device, of which each part is on the pair that [`Stripes`] says. It must not
//! know members, or what is read and written.

use std::ops::{Deref, Range};
use std::sync::Arc;

use lode_format::{CacheId, DeviceLayout, PairLabel};
use lode_types::{BlockSize, MediaError, planted};

use super::device::PairDevice;
use super::labels::{Pair, erase_label, write_label};
use super::member::MEMBERS;
use super::stripes::Stripes;
use crate::device::{PagesRead, SyncDevice};
use crate::error::{StoreError, StoreErrorKind};
use crate::heads::refuse_other_directory;
use crate::store::Store;

/// The pairs of a cache as one device. As with a single pair, whoever began something begins again when a member was dropped. Each pair is
/// asked for all that it has of several places at once, one pair after the other.
#[derive(Debug)]
pub struct PairArray<D> {
    pairs: Vec<PairDevice<D>>,
    stripes: Arc<Stripes>,
}

impl<D: SyncDevice> PairArray<D> {
    /// The cache that these pairs hold, in the order of their numbers. Of several, the superblock on the first says how it is divided.
    ///
    /// # Errors
    /// As [`Store::probe`] and [`Stripes::new`]; [`StoreErrorKind::WrongMember`] when the first has the superblock of another cache.
    ///
    /// # Panics
    /// When there is no pair.
    pub fn new(mut pairs: Vec<PairDevice<D>>) -> Result<PairArray<D>, StoreError> {
        let bytes: Vec<u64> = pairs.iter().map(SyncDevice::size_bytes).collect();
        let stripes = match &mut pairs[..] {
            [one] => Stripes::one(one.size_bytes()),
            several => {
                let superblock = Store::probe(&mut several[0])?;
                let Pair { id, pairs, .. } = *several[0].pair();
                if superblock.cache != id {
                    let context = format!(
                        "pair 1 of {pairs} of cache {id} has the superblock of cache {}; format the SSDs of all pairs again, which \
                         loses what they hold",
                        superblock.cache
                    );
                    return Err(StoreError::new(StoreErrorKind::WrongMember, context));
                }
                Stripes::new(&bytes, superblock.extent_bytes, superblock.block)?
            }
        };
        Ok(PairArray { pairs, stripes: Arc::new(stripes) })
    }

    /// The same of pairs that were found before, with the cache divided as it was found then.
    pub fn on(pairs: Vec<PairDevice<D>>, stripes: Arc<Stripes>) -> PairArray<D> {
        PairArray { pairs, stripes }
    }

    /// Makes pairs of devices, with an empty cache on all of them together. Whatever they hold is lost. The second of a pair may come later:
    /// it will need as many bytes as the first has.
    ///
    /// # Errors
    /// As [`Pair::several`], [`Stripes::new`] and [`Store::format`].
    ///
    /// # Panics
    /// When there are none.
    pub fn format(
        mut devices: Vec<(D, Option<D>)>,
        cache: CacheId,
        block: BlockSize,
        extent_bytes: Option<u64>,
    ) -> Result<Vec<Pair>, StoreError> {
        let size_of = |(first, second): &(D, Option<D>)| {
            let first_bytes = first.size_bytes();
            [first_bytes, second.as_ref().map_or(first_bytes, D::size_bytes)]
        };
        let sizes: Vec<_> = devices.iter().map(size_of).collect();
        let mut pairs = Pair::several(cache, &sizes)?;
        for (pair, (_, second)) in pairs.iter_mut().zip(&devices) {
            *pair = if second.is_some() { *pair } else { pair.awaiting() };
        }
        let bytes: Vec<u64> = pairs.iter().map(|pair| pair.pair_bytes).collect();
        let extent_bytes = extent_bytes.unwrap_or(DeviceLayout::suitable_extent_bytes(bytes.iter().sum()));
        let stripes = Stripes::new(&bytes, extent_bytes, block)?;
        // First nothing is believed, then the cache, then the labels that vouch for it.
        devices.iter_mut().flat_map(each_of).try_for_each(|device| erase_label(device))?;
        for device in each_of(&mut devices[0]) {
            let mut cache_on = Behind { device, bytes: stripes.size_bytes() };
            Store::format(&mut cache_on, cache, block, Some(extent_bytes))?;
        }
        for (pair, devices) in pairs.iter().zip(&mut devices) {
            for (member, device) in each_of(devices).enumerate() {
                write_label(device, &pair.label(member))?;
            }
        }
        Ok(pairs)
    }

    /// Where the cache is on its pairs.
    pub fn stripes(&self) -> &Arc<Stripes> {
        &self.stripes
    }

    /// What the labels of each pair say now.
    pub fn pairs(&self) -> impl Iterator<Item = &Pair> {
        self.pairs.iter().map(PairDevice::pair)
    }

    /// Before anything else is written: labels say what is missing of those that were found of each pair, and that a run begins
    /// ([`PairDevice::begin`]). The host is to `remember` the generation of the labels of a pair, which has this number, each time before they say
    /// more: of labels that nobody remembers there is one at most, whatever a start comes to, also where those of another pair fail. Then what
    /// describes the cache is made the same everywhere.
    ///
    /// # Errors
    /// [`StoreErrorKind::Media`] when no member of a pair can be written; those of `remember`.
    pub fn begin<E: From<StoreError>>(
        &mut self,
        labels: &[[Option<PairLabel>; MEMBERS]],
        mut remember: impl FnMut(usize, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let (superblock, pairs) = (Store::probe(self)?, self.pairs.len());
        let epoch = superblock.epoch;
        refuse_other_directory(self, superblock.cache)?;
        for (number, (pair, labels)) in self.pairs.iter_mut().zip(labels).enumerate() {
            let of_pair = |error: StoreError| match pairs {
                1 => error,
                _ => error.within(&format!("pair {} of {pairs}", number + 1)),
            };
            pair.begin(labels, epoch).map_err(of_pair)?;
            remember(number, pair.pair().generation)?;
            let steps = if planted("older-member-believed") { 0 } else { 2 };
            for _ in 0..steps {
                pair.raise().map_err(of_pair)?;
                remember(number, pair.pair().generation)?;
            }
        }
        Ok(self.pairs.iter_mut().try_for_each(PairDevice::make_heads_same)?)
    }

    /// The pair of one of its devices, if these bytes are on it, and where they are there.
    fn on_pair_of(
        &mut self,
        device: u16,
        bytes: Range<u64>,
    ) -> Result<(&mut PairDevice<D>, u64), MediaError> {
        let number = usize::from(device) / MEMBERS;
        match self.stripes.parts(bytes)[..] {
            [part] if part.pair == number => Ok((&mut self.pairs[number], part.offset_bytes)),
            _ => Err(MediaError::Gone),
        }
    }

    /// Reads each part of these bytes from the pair that it is on, at whose offset that is.
    fn read_parts(
        &mut self,
        offset_bytes: u64,
        buf: &mut [u8],
        mut read: impl FnMut(&mut PairDevice<D>, u64, &mut [u8]) -> Result<(), MediaError>,
    ) -> Result<(), MediaError> {
        let mut rest = buf;
        for part in self.stripes.parts(offset_bytes..offset_bytes + rest.len() as u64) {
            let (now, later) = rest.split_at_mut(part.length_bytes as usize);
            read(&mut self.pairs[part.pair], part.offset_bytes, now)?;
            rest = later;
        }
        Ok(())
    }
}

/// What a pair has of several places.
struct OfPair<B> {
    /// Where each part is on the pair.
    parts: Vec<(u64, B)>,
    /// Where each begins on the pair, and on the array.
    starts: Vec<(u64, u64)>,
}

impl<B> OfPair<B> {
    /// Where on the array this is, which is in one of the parts.
    fn in_array(&self, at: u64) -> u64 {
        if planted("differing-page-told-where-it-is-on-its-pair") {
            return at;
        }
        let start = self.starts.iter().filter(|&&(on_pair, _)| on_pair <= at).max();
        start.map_or(at, |(on_pair, in_array)| in_array + (at - on_pair))
    }
}

/// Divides parts of the array among the pairs that they are on. `split` cuts what belongs to a part in two.
fn on_pairs<B: Deref<Target = [u8]>>(
    stripes: &Stripes,
    parts: impl Iterator<Item = (u64, B)>,
    split: impl Fn(B, usize) -> (B, B),
) -> Vec<OfPair<B>> {
    let nothing = || OfPair { parts: Vec::new(), starts: Vec::new() };
    let mut of_pairs: Vec<OfPair<B>> = (0..stripes.pairs()).map(|_| nothing()).collect();
    for (mut in_array, mut rest) in parts {
        for part in stripes.parts(in_array..in_array + rest.len() as u64) {
            let (now, later) = split(rest, part.length_bytes as usize);
            let of_pair = &mut of_pairs[part.pair];
            of_pair.parts.push((part.offset_bytes, now));
            of_pair.starts.push((part.offset_bytes, in_array));
            (in_array, rest) = (in_array + part.length_bytes, later);
        }
    }
    of_pairs
}

/// The devices of a pair that are there, by member.
fn each_of<D>((first, second): &mut (D, Option<D>)) -> impl Iterator<Item = &mut D> {
    std::iter::once(first).chain(second)
}

/// What of a member of the first pair is behind its label, as the cache that begins there. There is no pair yet that would drop a member
/// which fails.
struct Behind<'a, D> {
    device: &'a mut D,
    bytes: u64,
}

impl<D: SyncDevice> SyncDevice for Behind<'_, D> {
    fn size_bytes(&self) -> u64 {
        self.bytes
    }

    fn read(&mut self, offset_bytes: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        self.device.read(PairLabel::DATA_START_BYTES + offset_bytes, buf)
    }

    fn write(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<(), MediaError> {
        self.device.write(PairLabel::DATA_START_BYTES + offset_bytes, bytes)
    }

    fn flush(&mut self) -> Result<(), MediaError> {
        self.device.flush()
    }
}

impl<D: SyncDevice> SyncDevice for PairArray<D> {
    fn size_bytes(&self) -> u64 {
        self.stripes.size_bytes()
    }

    fn read(&mut self, offset_bytes: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        self.read_parts(offset_bytes, buf, PairDevice::read)
    }

    fn has_copies(&self) -> bool {
        true
    }

    fn read_right(
        &mut self,
        offset_bytes: u64,
        buf: &mut [u8],
        is_right: &dyn Fn(&[u8]) -> bool,
    ) -> Result<(), MediaError> {
        match self.stripes.parts(offset_bytes..offset_bytes + buf.len() as u64)[..] {
            [part] => self.pairs[part.pair].read_right(part.offset_bytes, buf, is_right),
            // No block is on several extents, and nothing else has a test of its own.
            _ => self.read(offset_bytes, buf),
        }
    }

    fn read_pages(&mut self, offset_bytes: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        self.read_parts(offset_bytes, buf, PairDevice::read_pages)
    }

    fn read_pages_at_once(&mut self, parts: &mut [(u64, &mut [u8])]) -> PagesRead {
        let parts = parts.iter_mut().map(|(at, buf)| (*at, &mut **buf));
        let mut differing = Vec::new();
        for (pair, mut of_pair) in
            self.pairs.iter_mut().zip(on_pairs(&self.stripes, parts, <[u8]>::split_at_mut))
        {
            let read = pair.read_pages_at_once(&mut of_pair.parts);
            let on_pair = read.map_err(|(at, error)| (of_pair.in_array(at), error))?;
            differing.extend(on_pair.into_iter().map(|at| of_pair.in_array(at)));
        }
        Ok(differing)
    }

    fn home(&self, offset_bytes: u64) -> u16 {
        self.stripes.home(offset_bytes)
    }

    fn copies(&self, offset_bytes: u64) -> Vec<u16> {
        let Some(part) = self.stripes.parts(offset_bytes..offset_bytes + 1).first().copied() else {
            return Vec::new();
        };
        let members = self.pairs[part.pair].copies(part.offset_bytes).into_iter();
        members.map(|member| (part.pair * MEMBERS) as u16 + member).collect()
    }

    fn read_copy(&mut self, device: u16, offset_bytes: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        let (pair, offset_bytes) = self.on_pair_of(device, offset_bytes..offset_bytes + buf.len() as u64)?;
        pair.read_copy(device % MEMBERS as u16, offset_bytes, buf)
    }

    fn write_copy(&mut self, device: u16, offset_bytes: u64, bytes: &[u8]) -> Result<(), MediaError> {
        let (pair, offset_bytes) =
            self.on_pair_of(device, offset_bytes..offset_bytes + bytes.len() as u64)?;
        pair.write_copy(device % MEMBERS as u16, offset_bytes, bytes)
    }

    fn flush_copy(&mut self, device: u16) -> Result<(), MediaError> {
        let pair = self.pairs.get_mut(usize::from(device) / MEMBERS).ok_or(MediaError::Gone)?;
        pair.flush_copy(device % MEMBERS as u16)
    }

    fn dropped_since(&self, epoch: u64) -> Vec<u16> {
        let pairs = (0..).zip(&self.pairs);
        pairs
            .flat_map(|(pair, device)| {
                device.dropped_since(epoch).into_iter().map(move |member| pair * MEMBERS as u16 + member)
            })
            .collect()
    }

    fn write(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<(), MediaError> {
        let mut rest = bytes;
        for part in self.stripes.parts(offset_bytes..offset_bytes + bytes.len() as u64) {
            let (now, later) = rest.split_at(part.length_bytes as usize);
            self.pairs[part.pair].write(part.offset_bytes, now)?;
            rest = later;
        }
        Ok(())
    }

    fn write_at_once(&mut self, parts: &[(u64, &[u8])]) -> Result<(), (u64, MediaError)> {
        let of_pairs = on_pairs(&self.stripes, parts.iter().copied(), <[u8]>::split_at);
        let mut pairs = self.pairs.iter_mut().zip(of_pairs);
        pairs.try_for_each(|(pair, of_pair)| {
            pair.write_at_once(&of_pair.parts).map_err(|(at, error)| (of_pair.in_array(at), error))
        })
    }

    fn flush(&mut self) -> Result<(), MediaError> {
        // Every pair is flushed, whichever fails: what a member lacks is found as early as it can be.
        self.pairs.iter_mut().map(SyncDevice::flush).fold(Ok(()), Result::and)
    }
}

#[cfg(test)]
mod tests;
