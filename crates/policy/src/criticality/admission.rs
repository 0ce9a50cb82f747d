//! The hooks: what whoever submits, blocks, wakes and completes asks and tells.

use lode_types::BlockNo;

use super::in_flight::InFlight;
use super::waits::Waits;
use super::{
    AdmissionOptions, AdmissionPolicy, CompletionVerdict, Consequence, Device, EventId, LockId, Object,
    Population, ProcessId, SubmittedWrite, Verdict, WriteId,
};

/// Decides which writes the cache admits.
///
/// Hooks that can have consequences append them to `out`. They come in a fixed order, so that the same calls give the
/// same consequences. Nothing is allocated where nobody blocks. Policies that do not inherit criticality ignore locks,
/// events and waits.
///
/// # Panics
/// When a process, lock or event is not below the [`Population`] that it was made for.
#[derive(Debug)]
pub struct Admission {
    options: AdmissionOptions,
    waits: Waits,
    in_flight: InFlight,
}

impl Admission {
    /// Nobody critical, nothing under way.
    pub fn new(options: AdmissionOptions, population: Population) -> Admission {
        Admission { options, waits: Waits::new(population), in_flight: InFlight::default() }
    }

    /// How it admits.
    pub fn options(&self) -> AdmissionOptions {
        self.options
    }

    /// The hint of an application (section 4.1): this process serves requests, or no longer does.
    pub fn set_critical(&mut self, process: ProcessId, critical: bool, out: &mut Vec<Consequence>) {
        self.waits.set_critical(process, critical);
        self.settle(out);
    }

    /// Where a write of this process goes. A write that then really goes to the disk is told with
    /// [`Admission::on_disk`].
    #[inline]
    pub fn on_submit(&self, process: ProcessId, write: &SubmittedWrite) -> Verdict {
        let admits = match self.options.policy {
            AdmissionPolicy::All => true,
            AdmissionPolicy::Sync => write.sync,
            AdmissionPolicy::Wal => write.log,
            AdmissionPolicy::Cp => write.sync && self.is_critical(process),
            AdmissionPolicy::CpPi | AdmissionPolicy::CpPiIoi => {
                (write.sync && self.is_critical(process))
                    || (self.is_inherited(process) && (write.sync || !self.options.pi_sync_only))
            }
        };
        if admits { Verdict::Cache } else { Verdict::Disk }
    }

    /// A write with the verdict [`Verdict::Disk`] is on its way to the disk, as a whole or in part.
    pub fn on_disk(&mut self, write: &SubmittedWrite) {
        if self.options.reissue {
            self.in_flight.insert(write);
        }
    }

    /// The process begins to wait for the object. Waiters of a lock queue in the order of these calls.
    pub fn on_block(&mut self, process: ProcessId, object: Object, out: &mut Vec<Consequence>) {
        self.change_waits(out, |waits| waits.block(process, object));
    }

    /// The process waits no longer. Not needed before [`Admission::on_acquire`].
    pub fn on_unblock(&mut self, process: ProcessId, out: &mut Vec<Consequence>) {
        self.change_waits(out, |waits| waits.unblock(process));
    }

    /// The process owns the lock from now on, perhaps with others.
    pub fn on_acquire(&mut self, process: ProcessId, lock: LockId, out: &mut Vec<Consequence>) {
        self.change_waits(out, |waits| waits.acquire(process, lock));
    }

    /// The process gave the lock up. What it inherited through it ends.
    pub fn on_release(&mut self, process: ProcessId, lock: LockId, out: &mut Vec<Consequence>) {
        self.change_waits(out, |waits| waits.release(process, lock));
    }

    /// The process is one of those that will bring the event about.
    pub fn on_expect(&mut self, process: ProcessId, event: EventId, out: &mut Vec<Consequence>) {
        self.change_waits(out, |waits| waits.expect(process, event));
    }

    /// A critical process reads or writes these blocks at the device: writes of them that are on their way to the disk
    /// are issued again. For callers that see no waits; of a process that is not critical nothing follows.
    pub fn on_overlap(
        &mut self,
        process: ProcessId,
        first_block: BlockNo,
        blocks: u32,
        out: &mut Vec<Consequence>,
    ) {
        if self.waits.is_effective(process) {
            self.in_flight
                .reissue_overlapping(Some((first_block, blocks)), |id| out.push(Consequence::Reissue(id)));
        }
    }

    /// A critical process flushes: all writes that are on their way to the disk are issued again. For callers that see
    /// no waits.
    pub fn on_flush(&mut self, process: ProcessId, out: &mut Vec<Consequence>) {
        if self.waits.is_effective(process) {
            self.in_flight.reissue_overlapping(None, |id| out.push(Consequence::Reissue(id)));
        }
    }

    /// The cache has no room for a write that was to be issued again: it is left to the disk.
    pub fn on_no_space(&mut self, write: WriteId) {
        self.in_flight.no_space(write);
    }

    /// A device completed a write, or failed to. After the last completion of a write its number may be used again.
    pub fn on_complete(&mut self, write: WriteId, from: Device, ok: bool) -> CompletionVerdict {
        self.in_flight.complete(write, from, ok)
    }

    /// Whether this block's dirty copy must not go to the disk yet, because an older write of it that was issued again
    /// is still on its way there and could arrive later.
    pub fn holds_destage(&self, block: BlockNo) -> bool {
        self.in_flight.holds_destage(block)
    }

    /// Whether the process is critical by the application's hint.
    pub fn is_critical(&self, process: ProcessId) -> bool {
        self.waits.is_critical(process)
    }

    /// Whether somebody critical waits for the process, directly or through a chain.
    pub fn is_inherited(&self, process: ProcessId) -> bool {
        self.waits.inherited(process)
    }

    /// Processes that have inherited criticality now.
    pub fn inheritances(&self) -> usize {
        self.waits.inheritances()
    }

    /// Writes that were not admitted and of which a completion is still to come. Zero under policies that never
    /// issue a write again.
    pub fn outstanding(&self) -> usize {
        self.in_flight.len()
    }

    fn change_waits(&mut self, out: &mut Vec<Consequence>, change: impl FnOnce(&mut Waits)) {
        if self.options.policy.inherits() {
            change(&mut self.waits);
            self.settle(out);
        }
    }

    fn settle(&mut self, out: &mut Vec<Consequence>) {
        let Admission { waits, in_flight, options } = self;
        waits.tell(|process, inherits| {
            out.push(if inherits { Consequence::Inherits(process) } else { Consequence::Ends(process) });
        });
        waits.take_wanted(|write| {
            if options.reissue && in_flight.reissue(write) {
                out.push(Consequence::Reissue(write));
            }
        });
    }
}
