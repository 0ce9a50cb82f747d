//! Copies of metadata that go bad while the host is down, on the SSD or on one of each pair. It must not know what a page is.

use std::sync::Arc;

use lode_engine::command::DeviceId;
use lode_format::{PAGE_BYTES, PairLabel};
use lode_store::pair::MEMBERS;

use super::World;
use crate::disk::SimDisk;
use crate::pair::look;
use crate::rot::{Copies, Kept, pages_kept_twice};

/// In how many of a hundred times a copy that goes bad cannot be read.
const UNREADABLE: u64 = 40;

/// A copy of a page: on which pair, if it is one, and where on each of its members.
type Copy = (usize, u64);

impl World {
    /// In so many of a hundred times has copies of metadata rot, of each pair on one of its members. Gives how many did.
    pub(crate) fn rot(&mut self, chance: u64) -> u64 {
        if chance == 0 || !self.rng.chance(chance) {
            return 0;
        }
        let pairs = self.pairs().count();
        let victims: Vec<usize> = (0..pairs).map(|_| self.rng.below(MEMBERS as u64) as usize).collect();
        let mut rotten = 0;
        for page in self.pages_kept_twice() {
            let Some(copies) = Copies::pick(&mut self.rng) else { continue };
            for (pair, at) in copies.of(page) {
                let (byte, bit) = (self.rng.below(PAGE_BYTES as u64), self.rng.below(8) as u8);
                let victim = victims.get(pair).copied();
                match self.rng.chance(UNREADABLE) {
                    true => self.disk_of(pair, victim).make_unreadable(at),
                    false => self.disk_of(pair, victim).flip_bit(at + byte, bit),
                }
                rotten += 1;
            }
        }
        rotten
    }

    /// Flips a bit of these copies of all metadata on the SSD, or on the first member of each pair. Gives how many pages there are.
    pub fn lose_copies(&mut self, copies: Copies) -> usize {
        self.harm_copies(copies, |disk, at| disk.flip_bit(at + 100, 3))
    }

    /// As [`World::lose_copies`], of copies that cannot be read any more.
    pub fn make_copies_unreadable(&mut self, copies: Copies) -> usize {
        self.harm_copies(copies, SimDisk::make_unreadable)
    }

    fn harm_copies(&mut self, copies: Copies, harm: impl Fn(&mut SimDisk, u64)) -> usize {
        let pages = self.pages_kept_twice();
        let victim = self.pair.is_some().then_some(0);
        for &page in &pages {
            copies.of(page).for_each(|(pair, at)| harm(self.disk_of(pair, victim), at));
        }
        pages.len()
    }

    fn disk_of(&mut self, pair: usize, member: Option<usize>) -> &mut SimDisk {
        let to = member.and_then(|member| self.pairs().nth(pair).map(|pair| pair.to(member)));
        self.disk(DeviceId::Ssd, to)
    }

    /// The pages of which the SSD has two whole copies, the older one first. Of a pair both members have to: what rots on one of them in one
    /// run and on the other one in the next is nowhere.
    fn pages_kept_twice(&mut self) -> Vec<[Copy; 2]> {
        if self.pair.is_none() {
            return pages_kept_twice(&mut self.ssd).into_iter().map(|page| page.map(|at| (0, at))).collect();
        }
        if self.each_pair().any(|(first, pair)| pair.found_in_sync(first) != [true; MEMBERS]) {
            return Vec::new();
        }
        let Ok(mut array) = look(self.each_pair()) else { return Vec::new() };
        let stripes = Arc::clone(array.stripes());
        let Some(kept) = Kept::of(&mut array) else { return Vec::new() };
        let place = |at: u64| {
            let part = stripes.parts(at..at + PAGE_BYTES as u64)[0];
            (part.pair, PairLabel::DATA_START_BYTES + part.offset_bytes)
        };
        let [first, second] = [0, 1].map(|member| {
            kept.whole(|at, buf| {
                let (pair, at) = place(at);
                let to = self.pairs().nth(pair).map(|pair| pair.to(member));
                self.shared_disk(DeviceId::Ssd, to).peek(at, buf);
            })
        });
        let on_both = first.into_iter().filter(|page| second.contains(page));
        on_both.map(|page| page.map(place)).collect()
    }
}
