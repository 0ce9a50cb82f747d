//! A level as one vector a set, oldest first.

use lode_types::BlockNo;

use crate::driver::Residents;

#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub block: BlockNo,
    pub dirty: bool,
}

#[derive(Clone, Debug)]
pub struct PlainLevel {
    pub rows: Vec<Vec<Entry>>,
    pub blocks: u32,
    assoc: u32,
    by_jhash: bool,
}

fn fresh_sets(assoc: u32, blocks: u32) -> usize {
    let mut sets = 1;
    while assoc > 0 && u64::from(assoc) * sets as u64 * 2 <= u64::from(blocks) {
        sets *= 2;
    }
    sets
}

/// lookup3's final mix, written out as in its publication.
fn jhash(cluster: u64) -> u32 {
    let start = 0xdead_beefu32.wrapping_add(8);
    let (mut a, mut b, mut c) = (start.wrapping_add(cluster as u32), start, start);
    b = b.wrapping_add((cluster >> 32) as u32);
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}

impl PlainLevel {
    pub fn new(assoc: u32, by_jhash: bool, blocks: u32) -> PlainLevel {
        PlainLevel { rows: vec![Vec::new(); fresh_sets(assoc, blocks)], blocks, assoc, by_jhash }
    }

    pub fn set_of(&self, block: BlockNo) -> usize {
        let mut cluster_blocks = 1;
        while cluster_blocks * 2 <= u64::from(self.assoc) {
            cluster_blocks *= 2;
        }
        let cluster = block / cluster_blocks;
        let number = if self.by_jhash { u64::from(jhash(cluster)) } else { cluster };
        (number % self.rows.len() as u64) as usize
    }

    pub fn ways(&self, set: usize) -> usize {
        let (blocks, sets) = (self.blocks as usize, self.rows.len());
        blocks / sets + usize::from(set < blocks % sets)
    }

    pub fn row_of(&self, block: BlockNo) -> &Vec<Entry> {
        &self.rows[self.set_of(block)]
    }

    pub fn find(&self, block: BlockNo) -> Option<Entry> {
        self.row_of(block).iter().copied().find(|entry| entry.block == block)
    }

    pub fn is_full(&self, block: BlockNo) -> bool {
        self.row_of(block).len() >= self.ways(self.set_of(block))
    }

    pub fn is_closed(&self, block: BlockNo) -> bool {
        self.ways(self.set_of(block)) == 0
    }

    pub fn push(&mut self, block: BlockNo, dirty: bool) {
        let set = self.set_of(block);
        self.rows[set].push(Entry { block, dirty });
    }

    pub fn remove(&mut self, block: BlockNo) -> Option<Entry> {
        let set = self.set_of(block);
        let at = self.rows[set].iter().position(|entry| entry.block == block)?;
        Some(self.rows[set].remove(at))
    }

    pub fn touch(&mut self, block: BlockNo) {
        if let Some(entry) = self.remove(block) {
            self.push(block, entry.dirty);
        }
    }

    pub fn set_dirty(&mut self, block: BlockNo, dirty: bool) {
        let set = self.set_of(block);
        self.rows[set].iter_mut().filter(|entry| entry.block == block).for_each(|entry| entry.dirty = dirty);
    }

    /// Changes the share; sets may be overfull afterwards.
    pub fn regroup(&mut self, blocks: u32) {
        self.blocks = blocks;
        let ways = f64::from(blocks) / self.rows.len() as f64;
        let assoc = f64::from(self.assoc);
        let too_large = ways.floor() >= 2.0 * assoc;
        let too_small = ways.floor() < (0.75 * assoc).ceil() && self.rows.len() > 1;
        if self.assoc == 0 || !(too_large || too_small) {
            return;
        }
        let mut all: Vec<(f64, usize, Entry)> = Vec::new();
        for (set, row) in self.rows.iter().enumerate() {
            let place = |i: usize| i as f64 / row.len() as f64;
            all.extend(row.iter().enumerate().map(|(i, entry)| (place(i), set, *entry)));
        }
        all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        self.rows = vec![Vec::new(); fresh_sets(self.assoc, blocks)];
        for (_, _, entry) in all {
            self.push(entry.block, entry.dirty);
        }
    }

    /// Changes the share and says what left.
    pub fn resize(&mut self, blocks: u32) -> Vec<Entry> {
        self.regroup(blocks);
        let mut gone = Vec::new();
        for set in 0..self.rows.len() {
            while self.rows[set].len() > self.ways(set) {
                gone.push(self.rows[set].remove(0));
            }
        }
        gone
    }

    pub fn all(&self) -> impl Iterator<Item = Entry> + '_ {
        self.rows.iter().flatten().copied()
    }

    pub fn residents(&self) -> Residents {
        self.all().map(|entry| (entry.block, entry.dirty)).collect()
    }
}
