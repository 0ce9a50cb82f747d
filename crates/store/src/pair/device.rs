//! A pair as starts see it: one device, whose members are written one after the other. It must not know what is read and written,
//! but for the pages of metadata, which show whether they are whole.

use lode_format::{CacheId, PAGE_BYTES, PairLabel, is_sealed};
use lode_types::{BlockSize, MediaError, planted};

use super::array::PairArray;
use super::labels::{Pair, write_label};
use super::member::{MEMBERS, home_member, other};
use crate::device::{PagesRead, SyncDevice, Workers, pieces_of, read_one_by_one, uncompared};
use crate::error::StoreError;
use crate::heads::make_same;

/// A pair as one device. Once the run has begun a member is dropped that does not take what is written, or does not answer, while the
/// other one does: that one says so, and whoever began something begins again. A member of which labels say how much is resilvered gets
/// what is written, and is not read; when it fails they say that nothing is.
#[derive(Debug)]
pub struct PairDevice<D> {
    pair: Pair,
    /// By member; those that labels say nothing good of are not touched.
    devices: [Option<D>; MEMBERS],
    /// Epoch of the run that begins; 0 before labels say that it does, while nothing is written.
    epoch: u64,
    /// A member was dropped after labels had said that the run begins. What was found on it is believed no more, so that nothing more is read or
    /// written.
    has_dropped: bool,
    /// Room for what the other member has of pages that are read.
    copies: Vec<u8>,
}

impl<D: SyncDevice> PairDevice<D> {
    /// The pair that these devices are, by member. None is there of a member that is missing.
    ///
    /// # Panics
    /// When no device is there that has everything.
    pub fn new(pair: Pair, devices: [Option<D>; MEMBERS]) -> PairDevice<D> {
        let is_missed = |&member: &usize| pair.in_sync[member] && devices[member].is_none();
        let mut pair = (0..MEMBERS).filter(is_missed).fold(pair, Pair::missing);
        if pair.resilvered_member().is_some_and(|member| devices[member].is_none()) {
            pair.resilvered_bytes = 0;
        }
        let device = PairDevice { pair, devices, epoch: 0, has_dropped: false, copies: Vec::new() };
        assert!(device.pair.in_sync != [false; MEMBERS], "somebody has everything");
        device
    }

    /// Makes the only pair of a cache of two devices, the second of which may come later, with an empty cache. Whatever they hold is lost.
    ///
    /// # Errors
    /// As [`PairArray::format`].
    pub fn format(
        devices: (D, Option<D>),
        cache: CacheId,
        block: BlockSize,
        extent_bytes: Option<u64>,
    ) -> Result<Pair, StoreError> {
        let pairs = PairArray::format(vec![devices], cache, block, extent_bytes)?;
        Ok(pairs[0])
    }

    /// What its labels say now.
    pub fn pair(&self) -> &Pair {
        &self.pair
    }

    /// Says durably that a member is missing, if the labels that were found do not, before anything is written that it lacks, and
    /// brings labels up to the newest one: alone, a member with an older one would not be believed. The newest one is written again as well:
    /// that it can be read does not say that it is durable, because the flush after it may have failed. `epoch` is that of the last run.
    ///
    /// # Errors
    /// [`StoreErrorKind::Media`](crate::StoreErrorKind::Media) when no member can be written.
    pub fn begin(&mut self, labels: &[Option<PairLabel>; MEMBERS], epoch: u64) -> Result<(), StoreError> {
        (self.pair, self.epoch) = (self.pair.since(epoch), epoch + 1);
        self.pair = self.pair.begun(*labels);
        self.write_labels()
    }

    /// Takes labels a generation further. Two such steps before guests are served tell a member as it was in an earlier run from one that a start
    /// which was cut short left behind, which is one generation behind at most.
    ///
    /// # Errors
    /// As [`PairDevice::begin`].
    pub(super) fn raise(&mut self) -> Result<(), StoreError> {
        self.pair.generation += 1;
        self.write_labels()
    }

    /// Makes what describes the cache, which is on the first of its pairs, the same on both members: of writes before a power cut each of
    /// them may have got others.
    ///
    /// # Errors
    /// [`StoreErrorKind::Media`](crate::StoreErrorKind::Media).
    pub(super) fn make_heads_same(&mut self) -> Result<(), StoreError> {
        let is_first = self.pair.number == 0;
        if is_first && (0..MEMBERS).all(|member| self.pair.writes_to(member)) {
            let cache = self.pair.id;
            make_same(self, cache)?;
        }
        Ok(())
    }

    /// Has those who get what is written say so. One that fails is dropped, unless it is the last one that has everything.
    fn write_labels(&mut self) -> Result<(), StoreError> {
        for member in 0..MEMBERS {
            if let Err(error) = self.write_label_of(member) {
                if !self.pair.in_sync[other(member)] {
                    return Err(error);
                }
                // The next label takes the place of the one before this: this one has to be there.
                self.write_label_of(other(member))?;
                self.record(self.without(member, self.epoch - 1))?;
            }
        }
        Ok(())
    }

    /// The pair when this member has failed, in the run of this epoch.
    fn without(&self, member: usize, epoch: u64) -> Pair {
        match self.pair.in_sync[member] {
            true => self.pair.without(member, epoch),
            false => self.pair.without_resilvered(),
        }
    }

    /// Labels are to say this. Nobody is dropped who does not take it.
    fn record(&mut self, pair: Pair) -> Result<(), StoreError> {
        self.pair = pair;
        (0..MEMBERS).try_for_each(|member| self.write_label_of(member))
    }

    /// Has a member say so, if it gets what is written.
    fn write_label_of(&mut self, member: usize) -> Result<(), StoreError> {
        match self.devices[member].as_mut().filter(|_| self.pair.writes_to(member)) {
            Some(device) => write_label(device, &self.pair.label(member)),
            None => Ok(()),
        }
    }

    /// Does the same with every member that gets what is written. One that fails is dropped, unless it is the last one that has everything; that
    /// is an error all the same, because what was found on that member alone is believed no more, and has to be looked for again, and because
    /// one that is resilvered may be known already to whoever goes on with that.
    fn with_all(&mut self, mut work: impl FnMut(&mut D) -> Result<(), MediaError>) -> Result<(), MediaError> {
        if self.has_dropped {
            return Err(MediaError::Gone);
        }
        let mut results = [None; MEMBERS];
        for (member, result) in results.iter_mut().enumerate() {
            let is_passed = planted("start-passes-the-resilvered") && !self.pair.in_sync[member];
            let gets_it = self.pair.writes_to(member) && !is_passed;
            if let Some(device) = self.devices[member].as_mut().filter(|_| gets_it) {
                *result = Some(work(device));
            }
        }
        // What is left are those of members that have everything.
        let of_resilvered = self.pair.resilvered_member().and_then(|member| results[member].take());
        if let Some(Err(_)) = of_resilvered {
            self.record(self.pair.without_resilvered()).map_err(|_| MediaError::Io)?;
            // Whoever goes on sends it everything, and takes it for what labels said when that began.
            if !planted("start-goes-on-without-the-resilvered") {
                return Err(MediaError::Gone);
            }
        }
        match results {
            [Some(Ok(())), Some(Err(_))] => self.drop_member(1),
            [Some(Err(_)), Some(Ok(()))] => self.drop_member(0),
            results => results.into_iter().flatten().fold(Ok(()), Result::and),
        }
    }

    fn drop_member(&mut self, member: usize) -> Result<(), MediaError> {
        self.has_dropped = true;
        if planted("dropped-in-a-start-without-a-label") {
            return Err(MediaError::Gone);
        }
        self.record(self.pair.without(member, self.epoch))
            .map_or(Err(MediaError::Io), |()| Err(MediaError::Gone))
    }

    /// Whether a member that does not answer a read is dropped once the other one has. Otherwise nobody would know whether it has what the other one
    /// lacks: of blocks that no flush is known to cover.
    fn is_dropped_when_silent(&self) -> bool {
        let has_begun = self.epoch > 0;
        let in_sync = self.pair.in_sync == [true; MEMBERS] && !self.has_dropped;
        has_begun && in_sync && !planted("silent-ssd-stays-in-a-start")
    }

    fn in_sync_device(&mut self, member: u16) -> Result<&mut D, MediaError> {
        let member = usize::from(member);
        let is_usable = self.pair.in_sync[member] && !self.has_dropped;
        self.devices[member].as_mut().filter(|_| is_usable).ok_or(MediaError::Gone)
    }

    /// Reads from the first member that is asked and can.
    fn read_from(
        &mut self,
        members: &[usize],
        offset_bytes: u64,
        buf: &mut [u8],
    ) -> Result<usize, MediaError> {
        // What one says that answers counts before another one's silence: of what it cannot read other pages may be readable.
        let (mut failure, mut silent) = (MediaError::Gone, None);
        for &member in members {
            let Ok(device) = self.in_sync_device(member as u16) else { continue };
            match device.read(PairLabel::DATA_START_BYTES + offset_bytes, buf) {
                Ok(()) => return silent.map_or(Ok(member), |silent| Err(self.drop_silent(silent))),
                Err(MediaError::Gone) if self.is_dropped_when_silent() => silent = Some(member),
                Err(MediaError::Gone) if !planted("silence-hides-what-cannot-be-read") => {}
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Reads these pages from each member that has everything, at the same time; of each the copy that is whole, the first one's where both are.
    /// Where two members were read, the offsets of those that differ. `None`: one of them fails, or does not answer; what
    /// follows from that is found out where each part is read by itself.
    fn read_from_each(&mut self, parts: &mut [(u64, &mut [u8])]) -> Option<Vec<u64>> {
        let is_usable = self.pair.in_sync.map(|is_in_sync| is_in_sync && !self.has_dropped);
        let mut devices = self.devices.iter_mut().zip(is_usable);
        let mut in_sync =
            devices.by_ref().filter_map(|(device, is_usable)| device.as_mut().filter(|_| is_usable));
        let first = in_sync.next()?;
        let Some(second) = in_sync.next() else {
            first.read_pages_at_once(&mut on_member(parts)).ok()?;
            let is_left = planted("tables-of-the-resilvered-left");
            return Some(if is_left { Vec::new() } else { uncompared(self, parts) });
        };
        self.copies.resize(parts.iter().map(|(_, buf)| buf.len()).sum(), 0);
        let lengths: Vec<usize> = parts.iter().map(|(_, buf)| buf.len()).collect();
        let mut copies: Vec<(u64, &mut [u8])> =
            parts.iter().map(|&(at, _)| at).zip(pieces_of(&mut self.copies, lengths)).collect();
        let mut of_second = Ok(Vec::new());
        let mut read_second =
            |_: &dyn Workers| of_second = second.read_pages_at_once(&mut on_member(&mut copies));
        first.read_pages_beside(&mut on_member(parts), &mut read_second).ok()?;
        of_second.ok()?;
        Some(
            parts
                .iter_mut()
                .zip(copies)
                .flat_map(|((at, buf), (_, copy))| take_whole(*at, buf, copy))
                .collect(),
        )
    }

    /// A member does not answer, and the other one has.
    fn drop_silent(&mut self, member: usize) -> MediaError {
        if self.is_dropped_when_silent() {
            _ = self.drop_member(member);
        }
        MediaError::Gone
    }
}

/// Where on a member these parts of the pair are.
fn on_member<'a>(parts: &'a mut [(u64, &mut [u8])]) -> Vec<(u64, &'a mut [u8])> {
    parts.iter_mut().map(|(at, buf)| (PairLabel::DATA_START_BYTES + *at, &mut **buf)).collect()
}

/// Takes those pages from the copy that are whole there alone. The offsets of all that differ.
fn take_whole(offset_bytes: u64, buf: &mut [u8], copy: &[u8]) -> Vec<u64> {
    let mut differing = Vec::new();
    if buf != copy {
        let pages = buf.chunks_mut(PAGE_BYTES).zip(copy.chunks(PAGE_BYTES));
        for (at, (page, copy)) in (offset_bytes..).step_by(PAGE_BYTES).zip(pages).filter(|(_, (a, b))| a != b)
        {
            if !is_sealed(page) && is_sealed(copy) {
                page.copy_from_slice(copy);
            }
            if !planted("copies-that-differ-untold") {
                differing.push(at);
            }
        }
    }
    differing
}

impl<D: SyncDevice> SyncDevice for PairDevice<D> {
    fn size_bytes(&self) -> u64 {
        self.pair.pair_bytes
    }

    fn read(&mut self, offset_bytes: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        self.read_from(&[0, 1], offset_bytes, buf).map(drop)
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
        let (mut failure, mut silent, mut has_answered) = (None, None, false);
        for member in 0..MEMBERS {
            match self.read_from(&[member], offset_bytes, buf) {
                Ok(_) if is_right(buf) => return Ok(()),
                Ok(_) => has_answered = true,
                Err(_) if !self.pair.in_sync[member] && !self.has_dropped => {}
                Err(MediaError::Gone) => silent = Some(member),
                Err(error) => failure = Some(error),
            }
        }
        match silent {
            Some(silent) if has_answered => Err(self.drop_silent(silent)),
            // What could not be read may be the right one.
            _ => failure.or(silent.map(|_| MediaError::Gone)).map_or(Ok(()), Err),
        }
    }

    fn read_pages(&mut self, offset_bytes: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        let first = self.read_from(&[0, 1], offset_bytes, buf)?;
        if buf.chunks(PAGE_BYTES).all(is_sealed) {
            return Ok(());
        }
        let mut copy = vec![0; buf.len()];
        match self.read_from(&[other(first)], offset_bytes, &mut copy) {
            Ok(_) => {
                take_whole(offset_bytes, buf, &copy);
                Ok(())
            }
            Err(MediaError::Gone) if self.is_dropped_when_silent() => Err(self.drop_silent(other(first))),
            // What the first one has counts: that of two SSDs one is damaged and the other one fails is more than a pair is for, and a page
            // that is not whole is mostly one that was never written.
            Err(_) => Ok(()),
        }
    }

    fn read_pages_at_once(&mut self, parts: &mut [(u64, &mut [u8])]) -> PagesRead {
        self.read_from_each(parts).map_or_else(|| read_one_by_one(self, parts), Ok)
    }

    fn home(&self, offset_bytes: u64) -> u16 {
        home_member(offset_bytes) as u16
    }

    fn copies(&self, _offset_bytes: u64) -> Vec<u16> {
        (0..MEMBERS).filter(|&member| self.pair.in_sync[member]).map(|member| member as u16).collect()
    }

    fn read_copy(&mut self, device: u16, offset_bytes: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        self.read_from(&[device.into()], offset_bytes, buf).map(drop)
    }

    fn write_copy(&mut self, device: u16, offset_bytes: u64, bytes: &[u8]) -> Result<(), MediaError> {
        self.in_sync_device(device)?.write(PairLabel::DATA_START_BYTES + offset_bytes, bytes)
    }

    fn flush_copy(&mut self, device: u16) -> Result<(), MediaError> {
        self.in_sync_device(device)?.flush()
    }

    fn dropped_since(&self, epoch: u64) -> Vec<u16> {
        let members = (0..MEMBERS).filter(|&member| self.pair.was_dropped_since(member, epoch));
        members.map(|member| member as u16).collect()
    }

    fn write(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<(), MediaError> {
        self.with_all(|device| device.write(PairLabel::DATA_START_BYTES + offset_bytes, bytes))
    }

    fn write_at_once(&mut self, parts: &[(u64, &[u8])]) -> Result<(), (u64, MediaError)> {
        let on_member: Vec<(u64, &[u8])> =
            parts.iter().map(|&(at, bytes)| (PairLabel::DATA_START_BYTES + at, bytes)).collect();
        let result = self.with_all(|device| device.write_at_once(&on_member).map_err(|(_, error)| error));
        // Which of them failed on a member the other one cannot say. Where each member failed another one nobody is dropped: neither has all that
        // was written, and whoever writes begins again.
        result.map_err(|error| (parts.first().map_or(0, |&(at, _)| at), error))
    }

    fn flush(&mut self) -> Result<(), MediaError> {
        self.with_all(SyncDevice::flush)
    }
}

#[cfg(test)]
mod tests;
