//! A volume that has terabytes of an SSD, and uses little of them: its start and its tables cost what it uses.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use crate::common::{MIB, Site, lode_ok, pattern};

const GIB: u64 = 1 << 30;
const CHUNK_BYTES: u64 = 4 * MIB;

/// A VM with nearly all of a sparse SSD and a sparse disk of the same size.
fn site(bytes: u64) -> Site {
    let site = Site::new();
    let folder = site.folder.path().display();
    for name in ["large-ssd.img", "large.img"] {
        File::create(site.path(name)).unwrap().set_len(bytes).unwrap();
    }
    lode_ok(&["format", &site.text("large-ssd.img")]);
    let share_mib = bytes / MIB / 10 * 9;
    let text = format!(
        "name = \"test\"\nstate_dir = \"{folder}/state\"\n[ssd]\npath = \"{folder}/large-ssd.img\"\n[[vm]]\nname = \"vm1\"\n\
         backing = {{ path = \"{folder}/large.img\" }}\nssd = \"{share_mib}MiB\"\nscheme = \"lru\"\nwriteback = \"scheme\"\n\
         listen = [\"unix:{folder}/vm1.sock\"]\n"
    );
    fs::write(site.path("test.toml"), text).unwrap();
    site
}

fn on_ssd_mib(site: &Site) -> u64 {
    fs::metadata(site.path("large-ssd.img")).unwrap().blocks() * 512 / MIB
}

/// Guarantee 2, where a guest writes more than what was initialized at the start: what it flushed is there after a kill, and
/// none of its writes waited for the tables of all that it may write to.
#[test]
fn g2_a_volume_writes_its_tables_as_it_is_filled() {
    /// More than half of what is initialized when it comes.
    const WRITTEN_BYTES: u64 = GIB + 128 * MIB;
    let site = site(64 * GIB);
    let mut daemon = site.serve_up();
    let began = Instant::now();
    let mut client = daemon.client("vm1");
    assert!(client.read(0, 4096).iter().all(|byte| *byte == 0));
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let at_first = on_ssd_mib(&site);
    assert!(at_first < 64, "{at_first} MiB of an SSD are written for a volume that holds nothing");
    let share_mib = 64 * GIB / MIB / 10 * 9;
    assert_eq!(daemon.status()["vms"][0]["quota"]["ssd_blocks"], share_mib * 256, "it has all of its share");
    let chunks = (0..WRITTEN_BYTES).step_by(CHUNK_BYTES as usize);
    chunks.clone().for_each(|at| client.write(at, &pattern(at, 1, CHUNK_BYTES as usize)));
    client.flush();
    drop(client);
    daemon.kill();
    daemon = site.serve_up();
    let mut client = daemon.client("vm1");
    for at in chunks.step_by(7) {
        assert!(client.read(at, CHUNK_BYTES as u32) == pattern(at, 1, CHUNK_BYTES as usize), "at {at}");
    }
    let tables = on_ssd_mib(&site) - WRITTEN_BYTES / MIB;
    assert!((at_first..256).contains(&tables), "{tables} MiB beside the blocks");
    drop(client);
    daemon.stop();
    let said = lode_ok(&["check", &site.text("large-ssd.img"), "--metadata"]);
    assert!(said.contains("vm1"), "{said}");
}
