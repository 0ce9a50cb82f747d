//! When blocks that leave DRAM are worth a write to the SSD: the identifier of a too small DRAM (TICA, Algorithm 2) and
//! the state machine against cold blocks that are trapped on the SSDs (Algorithm 3, Fig. 9, repaired). It must not know
//! where blocks are.

/// What happens to a block that leaves the read partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// TICA-EF: it is dropped, which spares the SSDs.
    EnduranceFriendly,
    /// TICA-WED: it is copied to the SSD, which saves the next read from the disk.
    WriteToEnduranceDisk,
}

impl Policy {
    fn wed_if(wed: bool) -> Policy {
        if wed { Policy::WriteToEnduranceDisk } else { Policy::EnduranceFriendly }
    }
}

/// How Algorithms 2 and 3 are read, each by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Algorithm 2 as section 4.4.1 says: many hits in DRAM are reason enough for EF. Algorithm 3 as section 4.4.2 and Fig. 9
    /// say: many reads of the disk and many hits begin WED.
    Text,
    /// Algorithm 2 as lines 11 to 16 are printed: many hits in DRAM and the evicted queue together are reason for WED.
    /// Algorithm 3 as line 13 is printed: many reads of the disk alone begin WED.
    Printed,
}

/// Requests of one window that ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Reads and writes.
    pub requests: u64,
    /// Reads of which all blocks were in DRAM.
    pub dram_hits: u64,
    /// Other reads of which all blocks were in DRAM or in the evicted queue.
    pub evicted_hits: u64,
    /// Reads of which a block came from the disk.
    pub disk_reads: u64,
    /// Reads of which none did.
    pub read_hits: u64,
}

impl Window {
    fn share(&self, requests: u64) -> f64 {
        if self.requests == 0 { 0.0 } else { requests as f64 / self.requests as f64 }
    }
}

/// Algorithm 2: whether DRAM is too small for what is read.
#[derive(Clone, Copy, Debug)]
pub struct Identifier {
    /// How it is read.
    pub reading: Reading,
    /// The share of requests that hit the evicted queue above which DRAM is too small.
    pub t_min: f64,
    /// The share of requests that hit DRAM above which it is not (or, as printed, hit one of the two: above which it is).
    pub t_max: f64,
}

impl Identifier {
    /// What the requests of a window ask for.
    pub fn policy(&self, window: &Window) -> Policy {
        let Window { dram_hits, evicted_hits, .. } = *window;
        let thrashes = window.share(evicted_hits) > self.t_min;
        Policy::wed_if(match self.reading {
            Reading::Text => window.share(dram_hits) <= self.t_max && thrashes,
            Reading::Printed => window.share(evicted_hits + dram_hits) > self.t_max || thrashes,
        })
    }
}

/// States of Algorithm 3, SMBI ([`StateMachine`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmbiState {
    /// EF, until the disk is read much although much is hit.
    Initial,
    /// WED, while that goes on.
    Wed,
    /// EF for some windows, because hits got few although blocks were copied.
    Wait,
}

/// Algorithm 3, SMBI ("state machine based insertion"). Its counters start anew in every window, and the loss of either
/// condition ends WED: so says the text, the print says otherwise.
#[derive(Clone, Copy, Debug)]
pub struct StateMachine {
    reading: Reading,
    /// The share of requests that read the disk above which that is much.
    t_hdd: f64,
    /// The share of requests that are read hits above which these are many.
    t_read: f64,
    steps: u32,
    state: SmbiState,
    /// Windows still to wait.
    counter: u32,
}

impl StateMachine {
    /// In its initial state.
    pub fn new(reading: Reading, t_hdd: f64, t_read: f64, steps: u32) -> StateMachine {
        StateMachine { reading, t_hdd, t_read, steps, state: SmbiState::Initial, counter: steps }
    }

    /// The state now.
    pub fn state(&self) -> SmbiState {
        self.state
    }

    /// What it asks for.
    pub fn policy(&self) -> Policy {
        Policy::wed_if(self.state == SmbiState::Wed)
    }

    /// A window ended.
    pub fn step(&mut self, window: &Window) {
        let many_disk_reads = window.share(window.disk_reads) > self.t_hdd;
        let many_hits = window.share(window.read_hits) > self.t_read;
        match (self.state, many_disk_reads, many_hits) {
            (SmbiState::Initial, true, hits) if hits || self.reading == Reading::Printed => {
                self.state = SmbiState::Wed;
                self.counter = self.steps.saturating_sub(1);
            }
            (SmbiState::Initial, ..) | (SmbiState::Wed, true, true) => {}
            (SmbiState::Wed, true, false) => self.state = SmbiState::Wait,
            (SmbiState::Wed, false, _) => self.start_anew(),
            (SmbiState::Wait, _, hits) if self.counter == 0 || hits => self.start_anew(),
            (SmbiState::Wait, ..) => self.counter -= 1,
        }
    }

    fn start_anew(&mut self) {
        self.state = SmbiState::Initial;
        self.counter = self.steps;
    }
}

/// Where a read found a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadSource {
    /// In DRAM.
    Dram,
    /// On an SSD.
    Ssd,
    /// On the disk.
    Disk,
}

/// Both controllers with their windows. WED is in force where either asks for it.
#[derive(Debug)]
pub(super) struct Chooser {
    identifier: Identifier,
    machine: StateMachine,
    of_identifier: Window,
    of_machine: Window,
    identified: Policy,
    window_requests: u64,
    sample_requests: u64,
    request: RequestReads,
}

/// What is known of the request under way.
#[derive(Clone, Copy, Debug, Default)]
struct RequestReads {
    reads: bool,
    /// A block was not in DRAM.
    missed_dram: bool,
    /// A block was neither in DRAM nor in the evicted queue.
    unknown: bool,
    from_disk: bool,
}

impl Chooser {
    pub(super) fn new(identifier: Identifier, machine: StateMachine, sample_requests: u64) -> Chooser {
        Chooser {
            identifier,
            machine,
            of_identifier: Window::default(),
            of_machine: Window::default(),
            identified: Policy::EnduranceFriendly,
            window_requests: 1,
            sample_requests,
            request: RequestReads::default(),
        }
    }

    /// The length of the identifier's window.
    pub(super) fn set_window(&mut self, requests: u64) {
        self.window_requests = requests.max(1);
    }

    #[inline]
    pub(super) fn policy(&self) -> Policy {
        if self.identified == Policy::WriteToEnduranceDisk { self.identified } else { self.machine.policy() }
    }

    /// One block of the request under way was read; `remembered`: it was in the evicted queue.
    #[inline]
    pub(super) fn note_read(&mut self, found: ReadSource, remembered: bool) {
        let request = &mut self.request;
        request.reads = true;
        request.missed_dram |= found != ReadSource::Dram;
        request.unknown |= found != ReadSource::Dram && !remembered;
        request.from_disk |= found == ReadSource::Disk;
    }

    /// The request under way is over.
    #[inline]
    pub(super) fn end_request(&mut self) {
        let RequestReads { reads, missed_dram, unknown, from_disk } = std::mem::take(&mut self.request);
        let one = Window {
            requests: 1,
            dram_hits: u64::from(reads && !missed_dram),
            evicted_hits: u64::from(reads && missed_dram && !unknown),
            disk_reads: u64::from(reads && from_disk),
            read_hits: u64::from(reads && !from_disk),
        };
        self.of_identifier.add(&one);
        self.of_machine.add(&one);
        if self.of_identifier.requests >= self.window_requests {
            self.identified = self.identifier.policy(&std::mem::take(&mut self.of_identifier));
        }
        if self.of_machine.requests >= self.sample_requests {
            self.machine.step(&std::mem::take(&mut self.of_machine));
        }
    }
}

impl Window {
    fn add(&mut self, other: &Window) {
        self.requests += other.requests;
        self.dram_hits += other.dram_hits;
        self.evicted_hits += other.evicted_hits;
        self.disk_reads += other.disk_reads;
        self.read_hits += other.read_hits;
    }
}
