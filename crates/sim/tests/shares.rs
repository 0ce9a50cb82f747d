//! Shares that change while volumes are served: extents and frames go from one volume to another, and guests see nothing of it
//! (guarantees 1, 2, 4, 6, 7 and 10 of `docs/design.md`).

use lode_engine::command::{Command, CommandKind, Completion, DeviceId};
use lode_engine::{Buf, Engine, GuestOp, GuestRequest, SpaceBroker};
use lode_format::{PAGE_BYTES, TablePage};
use lode_policy::{Quota, Tenant};
use lode_sim::scenario::{BLOCK, all_schemes, first_seeds, machine, pattern, plan, read, seeds};
use lode_sim::{Crash, Faults, Machine, Plan, Rng, RunCounts, SimDisk, World, run_together};
use lode_store::{DirectoryOutput, Store, StoreView};
use lode_types::Bufs;

/// Three volumes on one SSD whose shares change all the time, with each scheme in turn.
fn run_all(change: impl Fn(Plan) -> Plan) -> RunCounts {
    let machines: Vec<Machine> = all_schemes().into_iter().map(|(_, machine)| machine).collect();
    let mut sum = RunCounts::default();
    for at in 0..machines.len() {
        for seed in first_seeds(seeds().div_ceil(4)) {
            let plan_of = |number: usize| {
                let machine = machines[(at + number * 5) % machines.len()].clone();
                let machine = Machine { name: format!("vm{number}"), ssd_bytes: 9 << 20, ..machine };
                change(Plan { share_changes: 1, requests: 400, ..plan(vec![machine], seed) })
            };
            let plans: Vec<Plan> = (0..3).map(plan_of).collect();
            for tally in run_together(&plans).unwrap_or_else(|error| panic!("machine {at}: {error}")) {
                sum.answered += tally.answered;
                sum.failed_writes += tally.failed_writes;
                sum.sectors_checked += tally.sectors_checked;
                sum.share_moves += tally.share_moves;
                sum.moved += tally.moved;
                sum.failed_starts += tally.failed_starts;
            }
        }
    }
    println!("{sum:?}");
    assert!(sum.share_moves > 50 && sum.moved > 50, "{sum:?}");
    sum
}

#[test]
fn g4_g6_shares_that_change_between_stops() {
    let tally = run_all(|plan| Plan { crash: Crash::Stop, ..plan });
    assert!(tally.failed_writes == 0, "{tally:?}");
}

#[test]
fn g2_g4_power_cuts_while_shares_change() {
    let tally = run_all(|plan| Plan { crash: Crash::Power, failed_starts: 2, ..plan });
    assert!(tally.failed_writes == 0, "{tally:?}");
}

#[test]
fn g4_g10_kills_while_shares_change() {
    let tally = run_all(|plan| Plan { crash: Crash::Kill, failed_starts: 2, ..plan });
    assert!(tally.failed_writes == 0, "{tally:?}");
}

#[test]
fn g4_g7_devices_that_fail_while_shares_change() {
    let faults = Faults {
        ssd_write_errors: 2,
        ssd_read_errors: 2,
        ssd_metadata_errors: 1,
        ssd_flush_errors: 1,
        backing_write_errors: 3,
        ..Faults::default()
    };
    let tally = run_all(|plan| Plan { faults, crash: Crash::Any, ..plan });
    assert!(tally.failed_writes > 100, "{tally:?}");
}

#[test]
fn g1_g4_drains_while_shares_change() {
    run_all(|plan| Plan { drains: 3, ends_drained: true, crash: Crash::Any, ..plan });
}

const SSD_BYTES: u64 = 5 << 20;

/// A host with two volumes on an SSD of four extents, whose devices carry out every command at once.
struct Host {
    ssd: SimDisk,
    machines: [Machine; 2],
    backing: [SimDisk; 2],
    engines: Vec<Engine>,
    broker: SpaceBroker,
    token: u64,
    /// Failed requests.
    failed: usize,
}

impl Host {
    fn new(shares: [u32; 2]) -> Host {
        let machines = [0, 1].map(|number| {
            let mut machine = machine("lru", &["write_policy=wb"], Quota::new(0, shares[number]));
            machine.config.largest_share = Some(Quota::new(0, 900));
            Machine { name: format!("vm{number}"), ssd_bytes: SSD_BYTES, ..machine }
        });
        let mut ssd = World::formatted_ssd(&machines[0]).unwrap();
        let mut store = Store::open(&mut ssd).unwrap();
        let attached = machines.each_ref().map(|one| store.attach(&mut ssd, &one.spec()).unwrap());
        let tags = attached.each_ref().map(|one| one.tag());
        let engines: Vec<Engine> = std::iter::zip(attached, &machines)
            .map(|(attached, one)| Engine::new(one.config, &one.settings, Some(attached)))
            .collect();
        let mut broker = SpaceBroker::new(0, Some(store.into_directory()));
        (0..2).for_each(|id| broker.join(id, Some(tags[id]), 0));
        let backing = [(); 2].map(|()| SimDisk::new(machines[0].config.volume_bytes));
        Host { ssd, machines, backing, engines, broker, token: 0, failed: 0 }
    }

    /// Lets everything happen that can, and has every write to the SSD looked at.
    fn run(&mut self, look: &mut dyn FnMut(&Host)) {
        let mut moved = true;
        while std::mem::take(&mut moved) {
            for at in 0..2 {
                while let Some(command) = self.engines[at].next_command() {
                    moved = true;
                    let completion = self.carry_out(at, command, look);
                    self.engines[at].complete(completion);
                }
                while let Some(request) = self.engines[at].next_space_request() {
                    self.broker.ask(at, request);
                }
                while let Some(answer) = self.engines[at].next_answer() {
                    self.failed += usize::from(answer.result.is_err());
                }
            }
            while let Some(output) = self.broker.next_output() {
                match output {
                    DirectoryOutput::Write { offset_bytes, buf } => {
                        self.ssd.put(offset_bytes, buf.as_slice());
                        look(self);
                    }
                    DirectoryOutput::Flush => self.ssd.settle(self.ssd.flush_mark()),
                }
                self.broker.done(true);
            }
            while let Some((id, answer)) = self.broker.next_answer() {
                moved = true;
                self.engines[id].space_answered(answer);
            }
        }
    }

    fn carry_out(&mut self, at: usize, command: Command, look: &mut dyn FnMut(&Host)) -> Completion {
        let Command { id, device, kind } = command;
        let disk = if device == DeviceId::Ssd { &mut self.ssd } else { &mut self.backing[at] };
        let mut filled = Bufs::new();
        match kind {
            CommandKind::Read { offset_bytes, bufs } => {
                filled = bufs;
                disk.peek_into(offset_bytes, &mut filled);
            }
            CommandKind::Write { offset_bytes, data } => {
                disk.put(offset_bytes, &data.concat());
                look(self);
            }
            CommandKind::Flush => disk.settle(disk.flush_mark()),
            CommandKind::Trim { .. } | CommandKind::WriteZeroes { .. } => unreachable!("nobody asks for it"),
        }
        Completion { id, result: Ok(()), bufs: filled }
    }

    fn submit(&mut self, at: usize, op: GuestOp) {
        self.token += 1;
        self.engines[at].submit(GuestRequest { token: self.token, op, now_ns: 0 });
        self.run(&mut |_| {});
    }

    fn tick(&mut self, look: &mut dyn FnMut(&Host)) {
        (0..2).for_each(|at| self.engines[at].tick());
        self.run(look);
    }

    fn extents(&self) -> [u32; 2] {
        [0, 1].map(|at| self.engines[at].gauges().extents)
    }

    /// What a start finds of both volumes after a power cut now.
    fn check_power_cut(&self, seed: u64) {
        self.check_start(self.ssd.after_power_cut(&mut Rng::new(seed)), seed);
    }

    /// What a start finds when the newer copy of every table page is unreadable.
    fn check_older_tables(&self) {
        let mut ssd = self.ssd.clone();
        let view = StoreView::read(&mut ssd).unwrap();
        let (superblock, tags) = (*view.superblock(), view.volumes().map(|volume| volume.tag));
        let (layout, tags) = (superblock.layout().unwrap(), tags.collect::<Vec<_>>());
        let mut destroyed = 0;
        for (extent, page) in
            (0..layout.extents).flat_map(|e| (0..layout.extent.table_pages).map(move |p| (e, p)))
        {
            let at = [0, 1].map(|copy| layout.extent_start(extent) + layout.extent.table_page(page, copy));
            let sequence = |at: &u64| {
                let mut bytes = [0; PAGE_BYTES];
                ssd.peek(*at, &mut bytes);
                let of = |&tag| TablePage::decode(superblock.cache, tag, extent, page, &bytes).ok();
                tags.iter().find_map(of).map(|table| table.sequence)
            };
            if let Some(newer) = at.into_iter().max_by_key(sequence).filter(|at| sequence(at).is_some()) {
                ssd.put(newer, &[0; PAGE_BYTES]);
                destroyed += 1;
            }
        }
        assert!(destroyed > 4);
        self.check_start(ssd, 1);
    }

    fn check_start(&self, mut ssd: SimDisk, seed: u64) {
        let rng = &mut Rng::new(seed);
        let mut store = Store::open(&mut ssd).unwrap();
        let worlds = [0, 1].map(|at| {
            let mut world = World::down(self.machines[at].clone(), seed);
            world.backing = self.backing[at].after_power_cut(rng);
            let places = store.view().places_of(&self.machines[at].name);
            world.restart_on(self.machines[at].clone(), places, &mut store, &mut ssd).unwrap();
            world
        });
        for (at, mut world) in worlds.into_iter().enumerate() {
            world.ssd = ssd.clone();
            for block in 0..blocks_of(at) {
                let bytes = read(&mut world, block * BLOCK, BLOCK).unwrap();
                assert!(bytes == content(at, block), "block {block} of volume {at}");
            }
        }
    }
}

fn blocks_of(volume: usize) -> u64 {
    [180, 60][volume]
}

fn content(volume: usize, block: u64) -> Vec<u8> {
    let mut bytes = pattern(block as u8, BLOCK as usize);
    bytes[..2].copy_from_slice(&[volume as u8, (block >> 8) as u8]);
    bytes
}

/// Both volumes are dirty and flushed when extents go from one to the other and back. The power fails after every single
/// write to a device, and each time both guests find what they flushed. After a change either copy of every table page says
/// everything.
#[test]
fn g2_g4_a_power_cut_after_every_write_of_a_change() {
    let mut host = Host::new([600, 100]);
    for at in 0..2 {
        // What is written first leaves first, so that most of the rest lies in extents that are given up.
        let first = if at == 0 { 300..500 } else { 300..300 };
        for block in first.chain(0..blocks_of(at)) {
            host.submit(at, GuestOp::write(block * BLOCK, Buf::copy_of(&content(at, block)), false));
        }
        host.submit(at, GuestOp::Flush);
    }
    assert_eq!((host.extents(), host.failed), ([3, 1], 0));
    let mut cuts = 0;
    for (shares, extents) in [([180, 600], [1, 3]), ([180, 100], [1, 1]), ([600, 100], [3, 1])] {
        let mut look = |host: &Host| {
            cuts += 1;
            (0..8).for_each(|seed| host.check_power_cut(cuts * 8 + seed));
        };
        (0..2).for_each(|at| host.engines[at].resize(Quota::new(0, shares[at])));
        host.run(&mut look);
        for _ in 0..10 {
            host.tick(&mut look);
        }
        assert_eq!((host.extents(), host.failed), (extents, 0));
        let quotas = [0, 1].map(|at| host.engines[at].quota().ssd_blocks);
        assert_eq!(quotas, shares);
        host.check_older_tables();
    }
    let moved: u64 = host.engines.iter().map(|engine| engine.gauges().moved_blocks).sum();
    println!("{cuts} power cuts, {moved} blocks moved");
    assert!(cuts > 50 && moved > 100, "{cuts} {moved}");
}
