//! Checks and repairs of a cache by its configuration, on files.

use std::fs;
use std::path::Path;

use lode_server::{CheckOptions, Config, FormatOptions, Verdict, check, format_pairs};
use lode_types::BlockSize;

const MIB: u64 = 1 << 20;

/// Damages one of the two copies.
fn spoil_directory(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let page = bytes.chunks_mut(4096).find(|page| page.starts_with(b"LODEdirc")).expect("a directory");
    page[200..264].fill(9);
    fs::write(path, bytes).unwrap();
}

/// An SSD that is missing may have what nothing else has: a repair that went on without it would leave that behind.
#[test]
fn g9_a_repair_waits_for_an_ssd_that_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let [one, other, away] = ["one", "other", "away"].map(|name| folder.path().join(name));
    let options = FormatOptions {
        block: BlockSize::new(4096).unwrap(),
        extent_bytes: None,
        force: false,
        create_bytes: Some(64 * MIB),
    };
    format_pairs(&[(&one, Some(&other))], &options).unwrap();
    fs::File::create(folder.path().join("disk")).unwrap().set_len(64 * MIB).unwrap();
    let text = format!(
        "name = \"host\"\nstate_dir = \"{0}\"\nssd = {{ path = \"{0}/one\", mirror = \"{0}/other\" }}\n[[vm]]\nname = \"vm\"\n\
         backing = {{ path = \"{0}/disk\" }}\nssd = \"16MiB\"\nscheme = \"lru\"\nlisten = [\"unix:{0}/vm.sock\"]",
        folder.path().display()
    );
    let config = Config::parse(&text, Path::new("host.toml")).unwrap();
    let repair = CheckOptions { repair: true, ..CheckOptions::default() };
    let mended = |config| check(config, &repair, &mut |_, _, _| {}).unwrap();

    // What is mended by a run has the host remember the pair; of one that it has never seen it would not begin without the other SSD.
    [&one, &other].into_iter().for_each(|path| spoil_directory(path));
    let report = mended(&config);
    assert_eq!((report.verdict, report.directory_copies), (Verdict::Sound, 2));

    fs::rename(&other, &away).unwrap();
    let before = fs::read(&one).unwrap();
    let report = mended(&config);
    assert_eq!((report.verdict, report.ssds[1].is_missed), (Verdict::Mendable, true));
    let why = report.not_mended.expect("it is said why nothing was mended");
    assert!(why.starts_with("Nothing was written") && why.contains("other"), "{why}");
    assert!(fs::read(&one).unwrap() == before, "nothing was written");

    fs::rename(&away, &other).unwrap();
    let report = mended(&config);
    assert_eq!((report.verdict, report.not_mended), (Verdict::Sound, None));
}
