//! What is on a device's medium, and what a power cut may make of the rest, by the assumptions of docs/design.md ("about the
//! media"): a completed flush covers every write that completed before it was issued; writes that no flush covers may be lost,
//! torn at any sector and reordered; a flush that fails may have lost what it should have covered, and no later one covers
//! that. It must not know whose device it is.

use std::collections::HashMap;

use lode_types::Rng;

use crate::image::{Data, Image};
use crate::sector::SECTOR_BYTES;

/// What happens at a device.
#[derive(Clone, Debug)]
pub enum DeviceEvent {
    /// A write has come, and may be on the medium from now on. Its number is its own among all events of the log.
    WriteBegan { id: u64, offset: u64, data: Data },
    /// It was answered. `failed`: with an error, and only its first so many bytes are there.
    WriteEnded { id: u64, failed: Option<u64> },
    /// A flush has come.
    FlushBegan { id: u64 },
    /// It was answered; `failed`: with an error.
    FlushEnded { id: u64, failed: bool },
}

/// A write that no flush covers.
#[derive(Clone, Debug)]
struct Volatile {
    id: u64,
    offset: u64,
    data: Data,
    /// When it was answered, counted in answers; `None`: it was not.
    answered: Option<u64>,
    /// No flush will cover it.
    doubtful: bool,
    /// Sectors of it that a later write took the place of, durably; empty: none.
    covered: Vec<bool>,
}

/// One device. See the module's documentation.
#[derive(Clone, Debug)]
pub struct Medium {
    durable: Image,
    /// In the order in which they were answered, and then those that were not.
    volatile: Vec<Volatile>,
    answers: u64,
    /// Answers there were when a flush came.
    flushes: HashMap<u64, u64>,
}

/// How much a power cut leaves of the writes that no flush covers, and in what pieces.
#[derive(Clone, Copy, Debug)]
enum Piece {
    Whole,
    Prefix,
    Sectors,
}

impl Medium {
    /// A device all of whose bytes are durable.
    pub fn new(durable: Image) -> Medium {
        Medium { durable, volatile: Vec::new(), answers: 0, flushes: HashMap::new() }
    }

    /// Takes an event in.
    pub fn apply(&mut self, event: &DeviceEvent) {
        match event {
            DeviceEvent::WriteBegan { id, offset, data } => self.volatile.push(Volatile {
                id: *id,
                offset: *offset,
                data: data.clone(),
                answered: None,
                doubtful: false,
                covered: Vec::new(),
            }),
            DeviceEvent::WriteEnded { id, failed } => self.answer(*id, *failed),
            DeviceEvent::FlushBegan { id } => {
                self.flushes.insert(*id, self.answers);
            }
            DeviceEvent::FlushEnded { id, failed } => {
                if let Some(answers) = self.flushes.remove(id) {
                    self.flushed(answers, *failed);
                }
            }
        }
    }

    fn answer(&mut self, id: u64, failed: Option<u64>) {
        let Some(at) = self.volatile.iter().position(|write| write.id == id) else { return };
        let mut write = self.volatile.remove(at);
        self.answers += 1;
        write.answered = Some(self.answers);
        if let Some(bytes) = failed {
            write.data = Data::Bytes(write.data.first(bytes).into());
        }
        let before = self.volatile.partition_point(|write| write.answered.is_some());
        self.volatile.insert(before, write);
    }

    fn flushed(&mut self, answers: u64, failed: bool) {
        let is_covered =
            |write: &Volatile| !write.doubtful && write.answered.is_some_and(|number| number <= answers);
        if failed {
            let covered = self.volatile.iter_mut().filter(|write| is_covered(write));
            covered.for_each(|write| write.doubtful = true);
            return;
        }
        let mut rest: Vec<Volatile> = Vec::new();
        for write in std::mem::take(&mut self.volatile) {
            if is_covered(&write) {
                // Older ones that stay are those that no flush covers.
                rest.iter_mut().for_each(|older| older.give_way_to(&write));
                self.durable.write(write.offset, &write.data);
            } else {
                rest.push(write);
            }
        }
        self.volatile = rest;
    }

    /// The device after a power cut now: what is durable, and of the other writes what chance leaves.
    pub fn after_power_cut(&self, rng: &mut Rng) -> Image {
        let kept_percent = [0, 10, 50, 50, 90, 100][rng.below(6) as usize];
        let mut image = self.durable.clone();
        let usual = rng.below(4);
        for write in &self.volatile {
            let piece = match if usual == 3 { rng.below(3) } else { usual } {
                0 => Piece::Whole,
                1 => Piece::Prefix,
                _ => Piece::Sectors,
            };
            write.keep(&mut image, rng, kept_percent, piece);
        }
        image
    }

    /// How many writes no flush covers.
    pub fn volatile_writes(&self) -> usize {
        self.volatile.len()
    }
}

impl Volatile {
    fn sectors(&self) -> u64 {
        self.data.length_bytes().div_ceil(SECTOR_BYTES)
    }

    fn give_way_to(&mut self, newer: &Volatile) {
        let (start, end) = (self.offset, self.offset + self.data.length_bytes());
        let (from, to) = (newer.offset.max(start), (newer.offset + newer.data.length_bytes()).min(end));
        if from >= to {
            return;
        }
        let sectors = self.sectors() as usize;
        self.covered.resize(sectors, false);
        let (first, last) = ((from - start) / SECTOR_BYTES, (to - start).div_ceil(SECTOR_BYTES));
        self.covered[first as usize..last as usize].fill(true);
    }

    /// Puts what is left of it into the image.
    fn keep(&self, image: &mut Image, rng: &mut Rng, kept_percent: u64, piece: Piece) {
        let sectors = self.sectors();
        let prefix = match piece {
            Piece::Whole if rng.chance(kept_percent) => sectors,
            Piece::Prefix if rng.chance(kept_percent) => rng.below(sectors + 1),
            Piece::Whole | Piece::Prefix => return,
            Piece::Sectors => sectors,
        };
        if prefix == sectors && self.covered.is_empty() && !matches!(piece, Piece::Sectors) {
            return image.write(self.offset, &self.data);
        }
        for sector in 0..prefix {
            let is_covered = self.covered.get(sector as usize).copied().unwrap_or(false);
            let is_kept = !matches!(piece, Piece::Sectors) || rng.chance(kept_percent);
            if is_kept && !is_covered {
                let start = sector * SECTOR_BYTES;
                let length = SECTOR_BYTES.min(self.data.length_bytes() - start);
                image.write(self.offset + start, &Data::Bytes(self.data.part(start, length).into()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const DEVICE_BYTES: u64 = 4096;

    /// A device whose writes are of one byte value each, and what is seen of them after many power cuts.
    struct One(Medium);

    impl One {
        fn new() -> One {
            One(Medium::new(Image::new(DEVICE_BYTES)))
        }

        fn begin(&mut self, id: u64, first_sector: u64, sectors: u64) {
            let data = Data::Bytes(vec![id as u8; (sectors * SECTOR_BYTES) as usize].into());
            self.0.apply(&DeviceEvent::WriteBegan { id, offset: first_sector * SECTOR_BYTES, data });
        }

        fn end(&mut self, id: u64) {
            self.0.apply(&DeviceEvent::WriteEnded { id, failed: None });
        }

        fn write(&mut self, id: u64, first_sector: u64, sectors: u64) {
            self.begin(id, first_sector, sectors);
            self.end(id);
        }

        fn flush(&mut self, failed: bool) {
            self.0.apply(&DeviceEvent::FlushBegan { id: 0 });
            self.0.apply(&DeviceEvent::FlushEnded { id: 0, failed });
        }

        /// What the first two sectors are found to hold.
        fn found(&self) -> BTreeSet<(u8, u8)> {
            let mut rng = Rng::new(1);
            let cuts = (0..600).map(|_| self.0.after_power_cut(&mut rng).read(0, 2 * SECTOR_BYTES));
            let cuts = cuts.inspect(|bytes| {
                let sectors = bytes.chunks(SECTOR_BYTES as usize);
                sectors
                    .for_each(|sector| assert!(sector.iter().all(|byte| *byte == sector[0]), "torn sector"));
            });
            cuts.map(|bytes| (bytes[0], bytes[SECTOR_BYTES as usize])).collect()
        }
    }

    #[test]
    fn what_no_flush_covers_is_lost_torn_and_reordered() {
        let mut one = One::new();
        one.write(1, 0, 2);
        assert_eq!(one.found(), [(0, 0), (0, 1), (1, 0), (1, 1)].into());
        one.begin(2, 0, 1);
        let firsts: BTreeSet<u8> = one.found().into_iter().map(|(first, _)| first).collect();
        assert_eq!(firsts, [0, 1, 2].into(), "one under way may be there, with or without those before");
    }

    #[test]
    fn a_flush_covers_what_was_answered_before_it_came() {
        let mut one = One::new();
        one.write(1, 0, 2);
        one.begin(2, 0, 1);
        one.0.apply(&DeviceEvent::FlushBegan { id: 0 });
        one.end(2);
        assert!(one.found().contains(&(0, 0)), "the flush is not over");
        one.0.apply(&DeviceEvent::FlushEnded { id: 0, failed: false });
        assert_eq!(one.found(), [(1, 1), (2, 1)].into());
        one.flush(false);
        assert_eq!((one.found(), one.0.volatile_writes()), ([(2, 1)].into(), 0));
    }

    #[test]
    fn of_a_failed_write_a_flush_covers_what_is_there() {
        let mut one = One::new();
        one.begin(1, 0, 2);
        one.0.apply(&DeviceEvent::WriteEnded { id: 1, failed: Some(SECTOR_BYTES) });
        assert_eq!(one.found(), [(0, 0), (1, 0)].into());
        one.flush(false);
        assert_eq!(one.found(), [(1, 0)].into());
    }

    #[test]
    fn a_failed_flush_loses_what_no_later_one_covers() {
        let mut one = One::new();
        one.write(1, 0, 2);
        one.flush(true);
        one.flush(false);
        assert_eq!(one.found(), [(0, 0), (0, 1), (1, 0), (1, 1)].into());
        one.write(2, 1, 1);
        one.flush(false);
        assert_eq!(
            one.found(),
            [(0, 2), (1, 2)].into(),
            "what was written again is durable, and nothing older returns"
        );
    }
}
