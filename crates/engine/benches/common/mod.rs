//! An engine whose SSD is memory, served one request at a time. As in a daemon the volume has spare places on the SSD, and memory
//! for records that outlives the process (here it does not).

use std::time::Instant;

use lode_engine::command::{Command, CommandKind, Completion, DeviceId, MediaError};
use lode_engine::{ByteList, Engine, EngineConfig, GuestOp, GuestRequest};
use lode_format::BootId;
use lode_policy::{Quota, SchemeInfo};
use lode_store::{RecordMemory, RecordStorage, Store, SyncDevice, VolumeSpec};
use lode_types::{BlockSize, Bufs};

pub const BLOCK: u64 = 4096;
pub const BLOCKS: u64 = 4096;
const SSD_BYTES: usize = 96 << 20;

struct Memory(Vec<u8>);

#[derive(Debug)]
struct Records(Vec<u8>);

impl RecordMemory for Records {
    fn put(&mut self, offset: usize, bytes: &[u8]) {
        self.0[offset..][..bytes.len()].copy_from_slice(bytes);
    }
}

impl SyncDevice for Memory {
    fn size_bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read(&mut self, offset_bytes: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        buf.copy_from_slice(&self.0[offset_bytes as usize..][..buf.len()]);
        Ok(())
    }

    fn write(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<(), MediaError> {
        self.0[offset_bytes as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), MediaError> {
        Ok(())
    }
}

pub struct Bench {
    pub engine: Engine,
    ssd: Memory,
}

impl Bench {
    pub fn new(scheme: &str, pairs: &[&str], quota: Quota) -> Bench {
        let mut settings = SchemeInfo::find(scheme).expect("a known scheme").settings();
        pairs.iter().for_each(|pair| settings.set_pair(pair).expect("a known setting"));
        let config = EngineConfig::new(BlockSize::KIB_4, BLOCKS * BLOCK, quota);
        let mut ssd = Memory(vec![0; SSD_BYTES]);
        Store::format(&mut ssd, lode_format::CacheId([1; 16]), config.block, None).expect("it fits");
        let (backing_bytes, places) = (BLOCKS * BLOCK, config.ssd_places());
        let spec = VolumeSpec {
            name: "vm".to_owned(),
            backing_bytes,
            places,
            spare_places: config.spare_ssd_places(),
            ready_places: u64::MAX,
            read_only: false,
            distrusts: None,
        };
        let mut store = Store::open(&mut ssd).expect("it was formatted");
        let mut attached = store.attach(&mut ssd, &spec).expect("there is room");
        let records = RecordStorage::USUAL_RECORDS;
        let memory = Box::new(Records(vec![0; RecordStorage::bytes(records)]));
        attached.keep_records_in(RecordStorage { memory, records, boot: BootId([1; 16]) });
        Bench { engine: Engine::new(config, &settings, Some(attached)), ssd }
    }

    /// Serves one request to the end.
    pub fn serve(&mut self, op: GuestOp) -> ByteList {
        self.engine.submit(GuestRequest { token: 0, op, now_ns: 0 });
        let mut answer = ByteList::new();
        loop {
            while let Some(command) = self.engine.next_command() {
                let completion = self.carry_out(command);
                self.engine.complete(completion);
            }
            match self.engine.next_answer() {
                Some(event) => answer = event.data,
                None => return answer,
            }
        }
    }

    fn carry_out(&mut self, command: Command) -> Completion {
        let mut result = Ok(());
        let mut filled = Bufs::new();
        match (command.kind, command.device) {
            (CommandKind::Read { mut offset_bytes, bufs }, DeviceId::Ssd) => {
                filled = bufs;
                for buf in &mut filled {
                    result = result.and(self.ssd.read(offset_bytes, buf.as_mut_slice()));
                    offset_bytes += buf.len() as u64;
                }
            }
            (CommandKind::Write { mut offset_bytes, data }, DeviceId::Ssd) => {
                for bytes in &data {
                    result = result.and(self.ssd.write(offset_bytes, bytes));
                    offset_bytes += bytes.len() as u64;
                }
            }
            (CommandKind::Read { bufs, .. }, DeviceId::Backing) => filled = bufs,
            _ => {}
        }
        Completion { id: command.id, result, bufs: filled }
    }

    /// Nanoseconds a request.
    pub fn time(&mut self, requests: u64, mut op: impl FnMut(u64) -> GuestOp) -> f64 {
        let start = Instant::now();
        for i in 0..requests {
            std::hint::black_box(self.serve(op(i)));
        }
        start.elapsed().as_nanos() as f64 / requests as f64
    }
}

/// Every block in turn, far apart.
pub fn read(i: u64) -> GuestOp {
    GuestOp::Read { offset_bytes: (i * 1031 % BLOCKS) * BLOCK, length_bytes: BLOCK }
}
