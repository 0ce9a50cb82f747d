//! Dirty pages that processes of a model share: in the kernel's page cache, by file and age, and in a database's pool. It
//! must not know who writes them to a disk, or when.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use lode_types::{BlockNo, Rng};

/// The kernel's dirty pages. As in Linux, what ages is the file: when it has been dirty for long enough, all its pages are
/// written. Ages are rounds of the kernel's writer.
#[derive(Debug, Default)]
pub(crate) struct PageCache {
    round: u64,
    files: Vec<DirtyFile>,
}

#[derive(Clone, Debug, Default)]
struct DirtyFile {
    since: u64,
    pages: BTreeSet<BlockNo>,
}

/// Shared by the programs of one script, which run one at a time.
pub(crate) type Shared<T> = Rc<RefCell<T>>;

/// To share it.
pub(crate) fn shared<T>(value: T) -> Shared<T> {
    Rc::new(RefCell::new(value))
}

impl PageCache {
    pub fn new(files: u64) -> PageCache {
        PageCache { round: 0, files: vec![DirtyFile::default(); files as usize] }
    }

    /// A page of a file becomes dirty, if it is not.
    pub fn dirty(&mut self, file: usize, page: BlockNo) {
        let file = &mut self.files[file];
        if file.pages.is_empty() {
            file.since = self.round;
        }
        file.pages.insert(page);
    }

    /// A round of the kernel's writer begins: the pages of each file that has been dirty for so many rounds, in order.
    pub fn take_old(&mut self, rounds: u64) -> Vec<Vec<BlockNo>> {
        let round = self.round;
        self.round += 1;
        let take = |file: &mut DirtyFile| {
            let pages =
                if file.since + rounds <= round { std::mem::take(&mut file.pages) } else { BTreeSet::new() };
            pages.into_iter().collect()
        };
        self.files.iter_mut().map(take).collect()
    }

    /// All dirty pages of a file, in order.
    pub fn take_file(&mut self, file: usize) -> Vec<BlockNo> {
        std::mem::take(&mut self.files[file].pages).into_iter().collect()
    }
}

/// The dirty pages of a database's pool, the longest dirty first.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    order: VecDeque<BlockNo>,
    dirty: BTreeSet<BlockNo>,
}

impl Pool {
    pub fn dirty(&mut self, page: BlockNo) {
        if self.dirty.insert(page) {
            self.order.push_back(page);
        }
    }

    /// The page that has been dirty longest is written.
    pub fn take_oldest(&mut self) -> Option<BlockNo> {
        let page = self.order.pop_front()?;
        self.dirty.remove(&page);
        Some(page)
    }

    /// All of them are, in any order.
    pub fn take_all(&mut self, rng: &mut Rng) -> Vec<BlockNo> {
        self.dirty.clear();
        let mut pages = Vec::from(std::mem::take(&mut self.order));
        for at in (1..pages.len()).rev() {
            pages.swap(at, rng.below(at as u64 + 1) as usize);
        }
        pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_writer_takes_files_that_have_been_dirty_long_enough() {
        let mut cache = PageCache::new(2);
        cache.dirty(0, 7);
        assert_eq!(cache.take_old(1), [vec![], vec![]]);
        cache.dirty(0, 5);
        cache.dirty(1, 3);
        assert_eq!(cache.take_old(1), [vec![5, 7], vec![]], "the file is dirty since before the first round");
        assert_eq!(cache.take_file(1), [3]);
        cache.dirty(1, 4);
        assert_eq!(cache.take_old(1), [vec![], vec![]]);
        assert_eq!(cache.take_old(1), [vec![], vec![4]]);
    }

    #[test]
    fn a_pool_writes_each_page_once() {
        let mut pool = Pool::default();
        [5, 9, 5, 2].into_iter().for_each(|page| pool.dirty(page));
        assert_eq!(pool.take_oldest(), Some(5));
        let mut rest = pool.take_all(&mut Rng::new(1));
        rest.sort_unstable();
        assert_eq!(rest, [2, 9]);
        assert_eq!(pool.take_oldest(), None);
    }
}
