//! Starts, removals and redo logs, without guests: a run that was killed while a group was in the log of a VM, and what is made of it.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use lode_format::{
    RedoEntry, RedoLabel, RedoLayout, RedoRanges, RedoState, RedoTablePage, VolumeTag, data_checksum,
};
use lode_types::BlockSize;
use tempfile::TempDir;

use super::*;
use crate::format::{FormatOptions, format};
use crate::redo::recover_disk;
use crate::volumes::remove_volume;

const DISK_BYTES: u64 = 4 << 20;
const BLOCK: usize = 4096;
/// What the disk has, and what a group brings there.
const BEFORE: u8 = 0xbb;
const OF_GROUP: u8 = 0x22;
const IN_GROUP: [u64; 3] = [0, 7, 9];

/// A cache SSD, two VMs, of which the first is written in order, and a folder for it all.
struct Host(TempDir);

impl Host {
    fn new() -> Host {
        let host = Host(TempDir::new().unwrap());
        let options = FormatOptions {
            block: BlockSize::KIB_4,
            extent_bytes: None,
            force: false,
            create_bytes: Some(64 << 20),
        };
        format(&host.path("ssd"), &options).unwrap();
        let folder = host.0.path().display();
        let mut text = format!(
            "name = \"a\"\nstate_dir = \"{folder}\"\nshm_dir = \"none\"\nio = \"threads\"\n[ssd]\npath = \"{folder}/ssd\"\n"
        );
        for vm in ["one", "two"] {
            host.restore(vm);
            text += &format!(
                "[[vm]]\nname = \"{vm}\"\nbacking = {{ path = \"{folder}/{vm}\" }}\nssd = \"8MiB\"\n\
                 listen = [\"unix:{folder}/{vm}.sock\"]\n"
            );
        }
        let ordered = "name = \"one\"\nwriteback = { ordered = true, group = \"1MiB\" }";
        fs::write(host.path("a.toml"), text.replace("name = \"one\"", ordered)).unwrap();
        host
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn config(&self) -> Config {
        Config::load(&self.path("a.toml")).unwrap()
    }

    /// A disk is as its backup has it.
    fn restore(&self, vm: &str) {
        fs::write(self.path(vm), vec![BEFORE; DISK_BYTES as usize]).unwrap();
    }

    fn is_restored(&self, vm: &str) -> bool {
        fs::read(self.path(vm)).unwrap().iter().all(|&byte| byte == BEFORE)
    }

    fn has_group(&self, vm: &str) -> bool {
        let bytes = fs::read(self.path(vm)).unwrap();
        IN_GROUP.iter().all(|&block| bytes[block as usize * BLOCK..][..BLOCK] == [OF_GROUP; BLOCK])
    }

    /// A run that is killed before any guest comes.
    fn run(&self) -> Result<(), String> {
        let config = self.config();
        let start = Start::plan(&config).map_err(|error| error.to_string())?;
        start.recover().map(drop).map_err(|error| error.to_string())
    }

    fn remove(&self, force: bool) -> Result<crate::volumes::RemovedVolume, String> {
        remove_volume(&self.config(), "one", force).map_err(|error| error.to_string())
    }

    fn sidecar(&self, vm: &str) -> String {
        fs::read_to_string(self.path(&format!("{vm}.sidecar"))).unwrap()
    }

    /// What a kill leaves between the log's flush and the disk's: a group is in the first VM's log. Gives the log.
    fn leave_group(&self, generation: u64) -> Vec<u8> {
        let log = File::options().read(true).write(true).open(self.path("one.redo")).unwrap();
        let mut page = vec![0; BLOCK];
        log.read_exact_at(&mut page, 0).unwrap();
        let label = RedoLabel::decode(&page).unwrap();
        let RedoLabel { cache, volume, layout, .. } = label;
        let bytes = [OF_GROUP; BLOCK];
        let entries = IN_GROUP.map(|block| RedoEntry { block, crc: data_checksum(volume, block, &bytes) });
        for number in 0..IN_GROUP.len() as u32 {
            log.write_all_at(&bytes, layout.block(number)).unwrap();
        }
        let table = RedoTablePage { volume, group: 227, page: 0, entries: entries.to_vec() };
        log.write_all_at(&table.encode(cache)[..], RedoLayout::table_page(0)).unwrap();
        let state = RedoState { volume, group: 227, blocks: IN_GROUP.len() as u32, generation };
        for copy in 0..RedoLayout::STATES {
            log.write_all_at(&state.encode(cache)[..], RedoLayout::state(copy)).unwrap();
        }
        fs::read(self.path("one.redo")).unwrap()
    }

    /// A host with such a log, and the log.
    fn killed() -> (Host, Vec<u8>) {
        let host = Host::new();
        host.run().unwrap();
        assert!(host.sidecar("one").contains("generation = 1"), "{}", host.sidecar("one"));
        let log = host.leave_group(1);
        (host, log)
    }
}

#[test]
fn g11_a_group_comes_to_its_disk_whether_or_not_its_generation_was_noted() {
    for generation in [0, 1] {
        let (host, _) = Host::killed();
        host.leave_group(generation);
        host.run().unwrap();
        assert!(host.has_group("one"));
        host.restore("one");
        host.leave_group(generation);
        let recovered = recover_disk(&host.path("one"), None, None).unwrap().unwrap();
        assert_eq!((recovered.applied_blocks, recovered.sidecar.is_some()), (3, true));
        assert!(host.has_group("one"));
    }
}

#[test]
fn g4_a_group_beside_another_disk_of_the_cache_is_refused() {
    let (host, log) = Host::killed();
    fs::write(host.path("two.redo"), &log).unwrap();
    let config = host.config();
    let refused = Start::plan(&config).map(drop).unwrap_err().to_string();
    for word in ["VM two: the redo log", "two.redo", "3 blocks of group 227", "(VM one)", "VM two. Move"] {
        assert!(refused.contains(word), "{word}: {refused}");
    }
    let refused = recover_disk(&host.path("two"), None, None).unwrap_err().to_string();
    assert!(refused.contains("Not recovered: the redo log") && refused.contains("VM two"), "{refused}");
    assert!(host.is_restored("one") && host.is_restored("two"), "a refusal writes nothing");
    assert!(fs::read(host.path("two.redo")).unwrap() == log);
    fs::remove_file(host.path("two.redo")).unwrap();
    host.run().unwrap();
    assert!(host.has_group("one") && host.is_restored("two"));
}

#[test]
fn g4_a_forced_removal_drops_the_group_and_one_without_force_brings_it_to_the_disk() {
    let (host, _) = Host::killed();
    let removed = host.remove(true).unwrap().log.unwrap();
    assert_eq!((removed.blocks, removed.group, removed.is_applied), (Some(3), Some(227), false));
    assert!(host.is_restored("one") && !host.path("one.redo").exists());
    assert!(host.sidecar("one").contains("clean"));
    host.run().unwrap();
    assert!(host.is_restored("one"));
    // Nothing is dirty here, so that it can be removed without force.
    host.leave_group(2);
    let removed = host.remove(false).unwrap().log.unwrap();
    assert!(removed.is_applied && host.has_group("one") && !host.path("one.redo").exists());
    host.run().unwrap();
    assert!(host.has_group("one"));
}

#[test]
fn g4_a_forced_removal_drops_a_damaged_log_and_no_log_of_another_volume() {
    let (host, log) = Host::killed();
    let damaged = |at: usize| {
        let mut bytes = log.clone();
        bytes[at..at + 8].fill(0xff);
        fs::write(host.path("one.redo"), &bytes).unwrap();
    };
    // Nobody can tell whose it is.
    damaged(0x20);
    let refused = host.remove(true).unwrap_err();
    assert!(refused.contains("one.redo") && refused.contains("move the log away"), "{refused}");
    damaged(RedoRanges::AT as usize + 0x20);
    assert!(host.remove(false).unwrap_err().contains("one.redo"));
    assert!(host.remove(true).unwrap().log.unwrap().blocks.is_none());
    assert!(host.is_restored("one") && !host.path("one.redo").exists());
    // The next volume of the VM has another tag.
    host.run().unwrap();
    fs::write(host.path("one.redo"), &log).unwrap();
    assert!(host.remove(true).unwrap().log.is_none());
    assert!(fs::read(host.path("one.redo")).unwrap() == log);
    assert!(host.run().unwrap_err().contains("is not known as the disk of that volume"));
}

#[test]
fn g4_a_removal_that_was_cut_short_leaves_no_group_that_comes_to_the_disk() {
    let (host, log) = Host::killed();
    let held = host.sidecar("one");
    host.remove(true).unwrap();
    // An older program left the log.
    fs::write(host.path("one.redo"), &log).unwrap();
    let refused = host.run().unwrap_err();
    assert!(
        refused.contains("the disk alone has everything") && refused.contains("remove the log"),
        "{refused}"
    );
    assert!(host.remove(true).is_err(), "it is gone");
    // The sidecar was not written any more.
    fs::write(host.path("one.sidecar"), &held).unwrap();
    let refused = host.run().unwrap_err();
    assert!(refused.contains("has given that volume of"), "{refused}");
    assert!(host.remove(false).unwrap_err().contains("has given that volume of"));
    assert!(host.is_restored("one"));
    let removed = host.remove(true).unwrap();
    assert_eq!((removed.space_bytes, removed.log.unwrap().blocks), (0, Some(3)));
    assert!(host.sidecar("one").contains("clean") && !host.path("one.redo").exists());
    assert!(host.remove(true).unwrap_err().contains("one"));
    host.run().unwrap();
    assert!(host.is_restored("one"));
}

#[test]
fn g4_a_group_of_another_generation_is_refused() {
    let (host, log) = Host::killed();
    let sidecar = host.sidecar("one");
    host.run().unwrap();
    host.restore("one");
    for (generation, state) in [(2, "held"), (1, "clean")] {
        let changed = sidecar.replace("generation = 1", &format!("generation = {generation}"));
        fs::write(host.path("one.sidecar"), changed.replace("held", state)).unwrap();
        fs::write(host.path("one.redo"), &log).unwrap();
        // This host remembers no other.
        let remembered = fs::read_to_string(host.path("a.state")).unwrap();
        let known = remembered.replace("generation = 1", &format!("generation = {generation}"));
        fs::write(host.path("a.state"), known).unwrap();
        let word = if state == "held" { "is of generation 2" } else { "the disk alone has everything" };
        for refused in [
            host.run().unwrap_err(),
            recover_disk(&host.path("one"), None, None).unwrap_err().to_string(),
            host.remove(false).unwrap_err(),
        ] {
            assert!(refused.contains(word), "{refused}");
        }
        assert!(host.is_restored("one"));
        fs::write(host.path("a.state"), remembered).unwrap();
    }
}

#[test]
fn g11_groups_are_of_the_generation_that_the_sidecar_is_about_to_have() {
    let host = Host::new();
    for (state, generation) in [("held", 1), ("held", 1), ("clean", 2)] {
        if let Ok(text) = fs::read_to_string(host.path("one.sidecar")) {
            fs::write(host.path("one.sidecar"), text.replace("held", state)).unwrap();
        }
        let config = host.config();
        let recovered = Start::plan(&config).unwrap().recover().unwrap();
        let ordered = recovered.vms[0].engine.config().ordered.unwrap();
        assert_eq!(ordered.generation, generation);
        assert!(host.sidecar("one").contains(&format!("generation = {generation}")));
        assert_ne!(recovered.vms[0].tag, None::<VolumeTag>);
    }
}
