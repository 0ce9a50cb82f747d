//! Bytes are not copied on their way through the engine, and an answer's stay what they were.

use lode_engine::command::{CommandKind, Completion, DeviceId};
use lode_engine::{Answer, Buf, Bytes, Engine, GuestOp, GuestRequest};
use lode_policy::Quota;
use lode_sim::scenario::{BLOCK, machine, pattern};
use lode_sim::{SimDisk, World};
use lode_store::Store;
use lode_types::Bufs;

struct Host {
    engine: Engine,
    ssd: SimDisk,
    backing: SimDisk,
    /// Bytes that the engine had written to the SSD, by the addresses where they were.
    written: Vec<Bytes>,
}

impl Host {
    fn new() -> Host {
        let machine = machine("etica", &["mode=full-hybrid", "sizing=off", "assoc=8"], Quota::new(20, 60));
        let mut ssd = World::formatted_ssd(&machine).unwrap();
        let attached = Store::open(&mut ssd).unwrap().attach(&mut ssd, &machine.spec()).unwrap();
        let engine = Engine::new(machine.config, &machine.settings, Some(attached));
        let backing = SimDisk::new(machine.config.volume_bytes);
        Host { engine, ssd, backing, written: Vec::new() }
    }

    fn serve(&mut self, op: GuestOp) -> Answer {
        self.engine.submit(GuestRequest { token: 1, op, now_ns: 0 });
        while let Some(command) = self.engine.next_command() {
            let disk = if command.device == DeviceId::Ssd { &mut self.ssd } else { &mut self.backing };
            let mut filled = Bufs::new();
            match command.kind {
                CommandKind::Read { offset_bytes, bufs } => {
                    filled = bufs;
                    disk.peek_into(offset_bytes, &mut filled);
                }
                CommandKind::Write { offset_bytes, data } => {
                    disk.put(offset_bytes, &data.concat());
                    if command.device == DeviceId::Ssd {
                        self.written.extend(data);
                    }
                }
                CommandKind::Flush => disk.settle(disk.flush_mark()),
                other => panic!("{other:?} was not asked for"),
            }
            self.engine.complete(Completion { id: command.id, result: Ok(()), bufs: filled });
        }
        self.engine.next_answer().expect("an answer")
    }

    fn read(&mut self, blocks: std::ops::Range<u64>) -> Vec<Bytes> {
        let (offset_bytes, length_bytes) = (blocks.start * BLOCK, (blocks.end - blocks.start) * BLOCK);
        let answer = self.serve(GuestOp::Read { offset_bytes, length_bytes });
        assert_eq!(answer.result, Ok(()));
        answer.data.into_vec()
    }

    fn write(&mut self, block: u64, bytes: Bytes) {
        assert_eq!(self.serve(GuestOp::write(block * BLOCK, bytes, false)).result, Ok(()));
    }
}

fn addresses(data: &[Bytes]) -> Vec<*const u8> {
    data.iter().map(|bytes| bytes.as_ptr()).collect()
}

#[test]
fn a_hit_in_dram_is_answered_from_its_frame_and_stays_what_it_was() {
    let mut host = Host::new();
    let bytes = Buf::copy_of(&pattern(1, 4 * BLOCK as usize)).freeze();
    host.write(3, bytes.clone());
    // What is read from a device is shared by the answer and the frame.
    let missed = host.read(3..7);
    let hit = host.read(3..7);
    assert_eq!(hit.concat(), bytes);
    assert_eq!(addresses(&missed), addresses(&hit));
    // A request for many blocks keeps no frame of them alive that was given to others.
    host.write(3, Buf::copy_of(&pattern(2, 4 * BLOCK as usize)).freeze());
    for block in 20..200 {
        host.read(block..block + 1);
    }
    assert_eq!(hit.concat(), bytes);
    assert_eq!(host.read(3..7).concat(), pattern(2, 4 * BLOCK as usize));
}

#[test]
fn a_write_goes_to_the_ssd_from_where_it_came_in() {
    let mut host = Host::new();
    let bytes = Buf::copy_of(&pattern(5, 8 * BLOCK as usize)).freeze();
    host.write(8, bytes.clone());
    let blocks: Vec<*const u8> = (0..8).map(|i| bytes.slice(i * BLOCK as usize..).as_ptr()).collect();
    let written = addresses(&host.written);
    assert!(blocks.iter().all(|block| written.contains(block)), "{blocks:?} {written:?}");
    // A frame keeps a block in memory and not the whole request.
    let hit = host.read(8..9);
    assert_eq!(hit[0], bytes[..BLOCK as usize]);
    assert!(!bytes.as_ptr_range().contains(&hit[0].as_ptr()));
}
