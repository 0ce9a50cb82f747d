//! An engine whose levels are full, with all memory counted that it takes. Devices are not there: everything that is read is
//! zeroes, and everything that is written is zeroes or thrown away.

use lode_allocations::{CountingAllocator, held_bytes};
use lode_engine::command::{Command, CommandKind, Completion, MediaError};
use lode_engine::{Buf, Engine, EngineConfig, GuestOp, GuestRequest};
use lode_format::CacheId;
use lode_policy::{Quota, SchemeInfo, Settings};
use lode_store::{Store, SyncDevice, VolumeSpec};
use lode_types::{BlockSize, Bufs, Level, Rng};

/// What a daemon measures distances on, unless told otherwise.
const SAMPLED: &[&str] = &["distances=sampled"];

/// The schemes that are measured, with what is set, and how many bytes all tables may take for each cached block, a test says.
pub const SCHEMES: [(&str, &[&str], u64); 11] = [
    ("lru", &[], 40),
    ("etica", SAMPLED, 45),
    ("etica", &[], 125),
    ("eci-cache-like", SAMPLED, 42),
    ("eci-cache-like", &[], 110),
    ("tica-adaptive", &[], 78),
    ("tica-ef", &[], 50),
    ("rpac", &[], 115),
    ("auto", &[], 200),
    ("auto", &["sizing=host"], 200),
    ("benefit-density", &[], 130),
];

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Bytes that are allocated now. Frames and other buffers of whole pages are not among them: the pool maps its memory itself.
pub fn allocated_bytes() -> usize {
    held_bytes()
}

/// An SSD that keeps the superblock and the directory, which is all that is read of one whose volumes are new.
struct Empty {
    size_bytes: u64,
    head: Vec<u8>,
}

impl SyncDevice for Empty {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read(&mut self, offset_bytes: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        buf.copy_from_slice(&self.head[offset_bytes as usize..][..buf.len()]);
        Ok(())
    }

    fn write(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<(), MediaError> {
        if let Some(head) = self.head.get_mut(offset_bytes as usize..offset_bytes as usize + bytes.len()) {
            head.copy_from_slice(bytes);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), MediaError> {
        Ok(())
    }
}

const BLOCK: u64 = 4096;
/// How many times as large as the cache the disk's used part is.
const FOOTPRINT: u64 = 4;
const REQUESTS_PER_TICK: u64 = 4096;

/// A full engine.
pub struct Filled {
    pub engine: Engine,
    pub settings: Settings,
    pub config: EngineConfig,
    pub extent_places: u32,
    /// Bytes that were allocated for it, without frames.
    pub allocated_bytes: usize,
}

impl Filled {
    /// Levels with an SSD share of so many blocks, and shares of the scheme's other levels beside it, filled by requests for
    /// skewed and scattered blocks, half of them writes.
    pub fn new(scheme: &str, pairs: &[&str], ssd_blocks: u32) -> Filled {
        let before = allocated_bytes();
        let info = SchemeInfo::find(scheme).expect("a known scheme");
        let mut settings = info.settings();
        pairs.iter().for_each(|pair| settings.set_pair(pair).expect("a known setting"));
        let share = info.levels.iter().fold(Quota::new(0, ssd_blocks), |share, &level| match level {
            Level::Dram => share.with(level, ssd_blocks / 16),
            Level::Ssd => share,
            Level::ReadSsd => share.with(level, ssd_blocks),
        });
        let disk_blocks = u64::from(ssd_blocks) * FOOTPRINT;
        let config = EngineConfig::new(BlockSize::KIB_4, disk_blocks * BLOCK, share);
        let (engine, extent_places) = engine(&config, &settings);
        let mut filled = Filled { engine, settings, config, extent_places, allocated_bytes: 0 };
        filled.fill(ssd_blocks, disk_blocks);
        filled.allocated_bytes = allocated_bytes() - before;
        filled
    }

    fn fill(&mut self, ssd_blocks: u32, disk_blocks: u64) {
        let (mut rng, zeroes) = (Rng::new(7), Buf::zeroed(BLOCK as usize).freeze());
        for number in 0..u64::from(ssd_blocks) * 4 {
            // The product of two is skewed to small numbers, and what is scattered is found again where it was.
            let block = rng.below(disk_blocks) * rng.below(disk_blocks) / disk_blocks;
            let offset_bytes = block.wrapping_mul(0x9e37_79b1) % disk_blocks * BLOCK;
            let op = match number % 2 {
                0 => GuestOp::Read { offset_bytes, length_bytes: BLOCK },
                _ => GuestOp::write(offset_bytes, zeroes.clone(), false),
            };
            self.engine.submit(GuestRequest { token: number, op, now_ns: number * 10_000 });
            self.carry_out();
            if number % REQUESTS_PER_TICK == 0 {
                self.engine.tick();
                self.carry_out();
            }
        }
    }

    fn carry_out(&mut self) {
        loop {
            while let Some(Command { id, kind, .. }) = self.engine.next_command() {
                let bufs = if let CommandKind::Read { bufs, .. } = kind { zeroed(bufs) } else { Bufs::new() };
                self.engine.complete(Completion { id, result: Ok(()), bufs });
            }
            match self.engine.next_answer() {
                Some(answer) => assert_eq!(answer.result, Ok(())),
                None => return,
            }
        }
    }

    /// Blocks in all levels.
    pub fn cached_blocks(&self) -> u64 {
        let gauges = self.engine.gauges();
        [gauges.dram_blocks, gauges.ssd_blocks, gauges.read_ssd_blocks].into_iter().map(u64::from).sum()
    }

    /// Blocks in the SSDs.
    pub fn ssd_blocks(&self) -> u64 {
        u64::from(self.engine.gauges().ssd_blocks)
    }
}

/// What was in buffers that are used again is not what is on a device of zeroes.
fn zeroed(mut bufs: Bufs) -> Bufs {
    bufs.iter_mut().for_each(|buf| buf.as_mut_slice().fill(0));
    bufs
}

fn engine(config: &EngineConfig, settings: &Settings) -> (Engine, u32) {
    let places = config.ssd_places();
    // Metadata takes up to 5 %.
    let size_bytes = ((places + places / 16) * BLOCK).next_multiple_of(BLOCK) + (64 << 20);
    let mut ssd = Empty { size_bytes, head: vec![0; 1 << 20] };
    let superblock = Store::format(&mut ssd, CacheId([1; 16]), config.block, None).expect("it fits");
    let spec = VolumeSpec {
        name: "vm".to_owned(),
        backing_bytes: config.volume_bytes,
        places,
        spare_places: 0,
        ready_places: u64::MAX,
        read_only: false,
        distrusts: None,
    };
    let mut store = Store::open(&mut ssd).expect("it was formatted");
    let attached = store.attach(&mut ssd, &spec).expect("there is room");
    let slots = superblock.layout().expect("it was formatted").extent.places;
    (Engine::new(*config, settings, Some(attached)), slots)
}
