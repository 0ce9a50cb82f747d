//! The files in which daemons leave, for their next run, the records of what they acknowledged: whose they are, and what may
//! have become of them. A start believes nothing that is not exactly what the run before left.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode};

use crate::common::{Daemon, Numbers, Site};
use crate::fleet::{Fleet, Kind, compare, write_some};
use crate::known::KnownDisk;

/// A fleet of so many kinds that keeps its records beside its state.
fn fleet(kinds: usize, seed: u64) -> Fleet {
    let mut all = Kind::all();
    all.truncate(kinds);
    let fleet = Fleet::new(&all, seed);
    fleet.site.configure_top(&format!("shm_dir = \"{}\"", fleet.site.memory.path().display()));
    fleet
}

/// Writes, flushes, writes more, has all of it acknowledged, and kills the daemon.
fn write_more_than_was_flushed(fleet: &mut Fleet) {
    let Fleet { site, disks, numbers } = fleet;
    let daemon = write_some(disks, site.serve_up(), numbers, 150, true);
    write_some(disks, daemon, numbers, 100, false).kill();
}

/// Goes on after a kill: writes little, and flushes all of it.
fn flush_a_few<'s>(site: &'s Site, disks: &mut [KnownDisk], numbers: &mut Numbers) -> Daemon<'s> {
    let daemon = site.serve_up();
    let older = compare(disks, &daemon);
    assert!(older.is_empty(), "older than what was acknowledged: {older:?}");
    write_some(disks, daemon, numbers, 30, true)
}

/// The files of records, in the order of their names.
fn files(site: &Site) -> Vec<PathBuf> {
    let folder = site.records().expect("a folder of records");
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Starts after something became of these files: that is said, and everything that was flushed is there. Then everything that
/// is acknowledged outlives the daemon as ever.
fn start_ignores(fleet: &mut Fleet, files: &[PathBuf]) {
    let Fleet { site, disks, numbers } = fleet;
    let logged = site.log().len();
    let daemon = site.serve_up();
    let older = compare(disks, &daemon);
    let log = site.log().split_off(logged);
    let broken: Vec<_> = older.iter().filter(|(_, older)| older.than_durable > 0).collect();
    assert!(broken.is_empty(), "older than what was flushed: {broken:?}\n{log}");
    println!("older than what was acknowledged: {older:?}");
    for file in files {
        assert!(log.contains(file.to_str().unwrap()), "{} is not spoken of: {log}", file.display());
    }
    write_some(disks, daemon, numbers, 100, false).kill();
    let daemon = site.serve_up();
    let older = compare(disks, &daemon);
    assert!(older.is_empty(), "older than what was acknowledged: {older:?}");
    daemon.stop();
}

fn change(file: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(file).unwrap();
    change(&mut bytes);
    fs::write(file, bytes).unwrap();
}

fn flip(file: &Path, part: std::ops::Range<usize>) {
    change(file, |bytes| bytes[part].iter_mut().for_each(|byte| *byte ^= 0x5a));
}

fn make_noise(file: &Path, from: usize) {
    let mut numbers = Numbers(0x6e6f_6973);
    change(file, |bytes| bytes.iter_mut().skip(from).for_each(|byte| *byte = numbers.below(256) as u8));
}

/// Where a file is put aside: beside the folder of records.
fn aside(file: &Path) -> PathBuf {
    let name = file.file_name().unwrap().to_str().unwrap();
    file.parent().unwrap().parent().unwrap().join(format!("{name}.aside"))
}

fn set_aside(file: &Path) {
    fs::rename(file, aside(file)).unwrap();
}

/// What may become of a file.
const DAMAGES: &[fn(&Path)] = &[
    |file| File::options().write(true).open(file).unwrap().set_len(0).unwrap(),
    |file| File::options().write(true).open(file).unwrap().set_len(20).unwrap(),
    |file| {
        let length = fs::metadata(file).unwrap().len();
        File::options().write(true).open(file).unwrap().set_len(length / 2).unwrap();
    },
    |file| make_noise(file, 0),
    |file| flip(file, 0..8),
    |file| flip(file, 8..40),
    |file| fs::set_permissions(file, Permissions::from_mode(0o644)).unwrap(),
    |file| {
        set_aside(file);
        symlink(aside(file), file).unwrap();
    },
    |file| {
        set_aside(file);
        rustix::fs::mknodat(CWD, file, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    },
    |file| {
        set_aside(file);
        fs::create_dir(file).unwrap();
    },
    |file| {
        set_aside(file);
        fs::create_dir(file).unwrap();
        fs::rename(aside(file), file.join("something")).unwrap();
    },
];

#[test]
fn files_that_something_became_of_are_ignored() {
    let mut fleet = fleet(DAMAGES.len(), 0x1111_2222);
    write_more_than_was_flushed(&mut fleet);
    let files = files(&fleet.site);
    assert_eq!(files.len(), DAMAGES.len(), "{files:?}");
    for (file, damage) in files.iter().zip(DAMAGES) {
        damage(file);
    }
    // Of a volume that there is not, and of nothing.
    let folder = files[0].parent().unwrap();
    for name in ["ffffffffffffffff.records", "something"] {
        fs::write(folder.join(name), [0x5a; 8192]).unwrap();
    }
    let link = files.iter().find(|file| file.is_symlink()).unwrap();
    let target = fs::read(link).unwrap();
    start_ignores(&mut fleet, &files);
    assert!(fs::read(aside(link)).unwrap() == target, "the daemon wrote through a link");
}

/// Behind its beginning a file may end anywhere, so that nothing needs to be said.
#[test]
fn records_that_are_noise_are_not_believed() {
    let mut fleet = fleet(6, 0x3333_4444);
    write_more_than_was_flushed(&mut fleet);
    for (file, from) in files(&fleet.site).iter().zip([4096, 2048, 1024, 4096 + 100, 512, 8192]) {
        make_noise(file, from);
    }
    start_ignores(&mut fleet, &[]);
}

#[test]
fn records_of_another_cache_are_not_believed() {
    let mut other = fleet(4, 0x5555_6666);
    write_more_than_was_flushed(&mut other);
    let mut fleet = fleet(4, 0x7777_8888);
    write_more_than_was_flushed(&mut fleet);
    let files = files(&fleet.site);
    for (file, another) in files.iter().zip(self::files(&other.site)) {
        fs::copy(another, file).unwrap();
    }
    start_ignores(&mut fleet, &files);
}

#[test]
fn caches_that_share_a_folder_leave_each_others_records_alone() {
    let mut one = fleet(2, 0x1212_3434);
    let mut two = fleet(2, 0x5656_7878);
    let shared = format!("shm_dir = \"{}\"", one.site.memory.path().display());
    let text = fs::read_to_string(two.site.path("test.toml")).unwrap();
    let own = text.lines().next().unwrap();
    fs::write(two.site.path("test.toml"), text.replacen(own, &shared, 1)).unwrap();
    write_more_than_was_flushed(&mut two);
    write_more_than_was_flushed(&mut one);
    for fleet in [&mut one, &mut two] {
        let daemon = fleet.site.serve_up();
        let older = compare(&mut fleet.disks, &daemon);
        assert!(older.is_empty(), "older than what was acknowledged: {older:?}");
        daemon.stop();
    }
    assert_eq!(one.site.records(), None, "orderly stops leave nothing");
}

/// Files and what is in them.
fn contents(site: &Site) -> Vec<(PathBuf, Vec<u8>)> {
    files(site).into_iter().map(|file| (file.clone(), fs::read(file).unwrap())).collect()
}

/// Puts files back that somebody has copied.
fn put_back(copies: &[(PathBuf, Vec<u8>)]) {
    let folder = copies[0].0.parent().unwrap();
    fs::create_dir_all(folder).unwrap();
    fs::set_permissions(folder, Permissions::from_mode(0o700)).unwrap();
    for (file, bytes) in copies {
        fs::write(file, bytes).unwrap();
        fs::set_permissions(file, Permissions::from_mode(0o600)).unwrap();
    }
}

#[test]
fn records_of_an_earlier_life_are_not_believed() {
    for is_killed in [false, true] {
        let mut fleet = fleet(4, 0x9999_aaaa);
        write_more_than_was_flushed(&mut fleet);
        let early = contents(&fleet.site);
        // What is written now is little, so that the places of which the old records speak still hold what they say.
        let Fleet { site, disks, numbers } = &mut fleet;
        let daemon = flush_a_few(site, disks, numbers);
        if is_killed {
            daemon.kill()
        } else {
            daemon.stop()
        }
        put_back(&early);
        let files: Vec<PathBuf> = early.into_iter().map(|(file, _)| file).collect();
        start_ignores(&mut fleet, &files);
    }
}

/// Of the same run, but older than what was flushed: the journal knows better. Nobody can see that records are missing, so
/// that nothing needs to be said.
#[test]
fn records_of_an_earlier_moment_are_not_believed_over_the_journal() {
    let mut fleet = fleet(4, 0xbbbb_cccc);
    write_more_than_was_flushed(&mut fleet);
    let Fleet { site, disks, numbers } = &mut fleet;
    let daemon = flush_a_few(site, disks, numbers);
    let daemon = write_some(disks, daemon, numbers, 60, false);
    let early = contents(site);
    write_some(disks, daemon, numbers, 30, true).kill();
    put_back(&early);
    start_ignores(&mut fleet, &[]);
}
