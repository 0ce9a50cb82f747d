//! What is to come in a recording, for schemes that need to know it. It must not know how they decide.

use std::cell::Cell;
use std::rc::Rc;

use lode_policy::{Lookahead, NextUses, NextUsesBuilder, Prefetch, Quota, Scheme, SettingError, Sink, Slot};
use lode_types::{Access, BlockNo, Level};

use crate::driver::Driver;
use crate::error::ReplayError;
use crate::recording::Recording;
use crate::run::{Options, RequestStream};

/// The future of every VM of a recording, by number.
#[derive(Clone, Debug)]
pub struct Future {
    vms: Vec<NextUses>,
}

impl Future {
    /// Goes through all of `recording`, cut into blocks as `options` say; `None` when that would take more than
    /// `most_bytes` of memory.
    ///
    /// # Errors
    /// [`ReplayError::TooManyVolumes`]; [`ReplayError::Setting`] for a VM of more accesses than can be numbered.
    pub fn of(
        recording: &Recording,
        options: &Options,
        most_bytes: u64,
    ) -> Result<Option<Future>, ReplayError> {
        let left_bytes = Rc::new(Cell::new(most_bytes));
        let build = move |_| Recorder::new(Rc::clone(&left_bytes));
        let times = options.host.service_times(options.block_size);
        let vms = recording.vm_names().len();
        // The same loop as that of the replay, so that its accesses are these, in this order.
        let mut driver =
            Driver::new(&options.settings, options.physical, options.block_size, times, vms, build);
        let (mut playback, mut batch) = (recording.play(), Vec::new());
        while playback.next_batch(&mut batch)? > 0 {
            for (vm, request) in &batch {
                driver.push(*vm, request)?;
            }
            if driver.schemes().any(|recorder| recorder.is_full) {
                return Ok(None);
            }
        }
        driver.finish();
        let futures = driver.into_schemes().map(Recorder::future).collect::<Result<Option<_>, _>>()?;
        Ok(futures.map(|vms| Future { vms }))
    }

    /// The future of a VM; nothing is known of one that the recording does not have.
    pub(crate) fn of_vm(&self, vm: usize) -> NextUses {
        self.vms.get(vm).cloned().unwrap_or_default()
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> u64 {
        self.vms.iter().map(|vm| vm.memory_bytes() as u64).sum()
    }
}

/// Takes down what a scheme would be asked, and caches nothing.
struct Recorder {
    builder: NextUsesBuilder,
    /// Memory that all scouts together may still take.
    left_bytes: Rc<Cell<u64>>,
    is_full: bool,
    error: Option<SettingError>,
}

impl Recorder {
    fn new(left_bytes: Rc<Cell<u64>>) -> Recorder {
        Recorder { builder: NextUsesBuilder::new(), left_bytes, is_full: false, error: None }
    }

    /// `None` if it did not fit the memory.
    fn future(self) -> Result<Option<NextUses>, SettingError> {
        match self.error {
            Some(error) => Err(error),
            None => Ok((!self.is_full).then(|| self.builder.finish())),
        }
    }

    fn take_down(&mut self, block: BlockNo) {
        let before = self.builder.memory_bytes();
        if let Err(error) = self.builder.access(block) {
            self.error = Some(error);
        }
        let grown = (self.builder.memory_bytes() - before) as u64;
        match self.left_bytes.get().checked_sub(grown) {
            Some(left) => self.left_bytes.set(left),
            None => {
                self.is_full = true;
                self.builder = NextUsesBuilder::new();
            }
        }
    }
}

impl Prefetch for Recorder {}

impl Lookahead for Recorder {}

impl Scheme for Recorder {
    fn access<S: Sink>(&mut self, access: Access, _: &mut S) {
        if !self.is_full && self.error.is_none() {
            self.take_down(access.block);
        }
    }

    fn discard<S: Sink>(&mut self, block: BlockNo, _: &mut S) {
        self.builder.discard(block);
    }

    fn forget(&mut self, _: Level, _: BlockNo) {}

    fn cleaned(&mut self, _: BlockNo) {}

    fn restore(&mut self, _: BlockNo, _dirty: bool) -> Option<Slot> {
        None
    }

    fn expect(&mut self, _: u32) {}

    fn resize<S: Sink>(&mut self, _: Quota, _: &mut S) {}

    fn quota(&self) -> Quota {
        Quota::default()
    }

    fn resident_blocks(&self, _: Level) -> u32 {
        0
    }

    fn memory_bytes(&self) -> usize {
        self.builder.memory_bytes()
    }
}
