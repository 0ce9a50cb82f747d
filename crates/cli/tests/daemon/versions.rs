//! SSDs and logs of other versions of the format, and SSDs of which too little is left: refused by what they are, and not changed.

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::FileExt;

use lode_format::{DeviceLayout, Directory, PAGE_BYTES};

use crate::common::{MIB, Site, lode, lode_fails, lode_ok};

const PAGE: usize = PAGE_BYTES;

/// CRC32C, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| (crc >> 1) ^ (0x82f6_3b78 & 0u32.wrapping_sub(crc & 1));
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

/// Opens a file to change a page of it.
fn open(site: &Site, name: &str) -> File {
    OpenOptions::new().read(true).write(true).open(site.path(name)).unwrap()
}

fn page(site: &Site, name: &str, at: usize) -> [u8; PAGE] {
    let mut page = [0; PAGE];
    open(site, name).read_exact_at(&mut page, at as u64).unwrap();
    page
}

/// Makes the page at this byte of a file one of another version, and otherwise as it is.
fn reseal(site: &Site, name: &str, at: usize, version: u32) {
    let mut page = page(site, name, at);
    assert!(page.starts_with(b"LODE"), "{name} has a page there");
    page[12..16].copy_from_slice(&version.to_le_bytes());
    page[8..12].fill(0);
    let crc = crc32c(&page);
    page[8..12].copy_from_slice(&crc.to_le_bytes());
    open(site, name).write_all_at(&page, at as u64).unwrap();
}

/// The identity in the page at this byte.
fn uuid(site: &Site, name: &str, at: usize) -> String {
    lode_format::CacheId(page(site, name, at)[16..32].try_into().unwrap()).to_string()
}

/// What a refusal says, which changes none of these files: neither what describes what is there nor the first of what that is.
fn refused(site: &Site, files: &[&str], refusal: impl FnOnce() -> String) -> String {
    const LOOKED_AT: u64 = 4 * MIB;
    let head = |name: &&str| {
        let mut bytes = Vec::new();
        open(site, name).take(LOOKED_AT).read_to_end(&mut bytes).unwrap();
        bytes
    };
    let read = || files.iter().map(head).collect::<Vec<_>>();
    let before = read();
    let said = refusal();
    assert!(read() == before, "a refusal changes nothing: {said}");
    said
}

fn has_all(said: &str, words: &[&str]) {
    assert!(words.iter().all(|word| said.contains(word)), "{words:?}: {said}");
}

fn serve_once(site: &Site) {
    let daemon = site.serve_up();
    daemon.client("vm1").write(0, &[1; 4096]);
    daemon.stop();
}

#[test]
fn format_spares_what_is_of_another_version() {
    let site = Site::in_memory();
    let names = ["ssd.img", "read.img", "one.img", "other.img"];
    lode_ok(&["format", "--read-ssd", &site.text("read.img"), "--create", "32MiB"]);
    lode_ok(&["format", &site.text("one.img"), "--mirror", &site.text("other.img"), "--create", "64MiB"]);
    for name in ["new.img", "second.img", "third.img"] {
        File::create(site.path(name)).unwrap().set_len(64 << 20).unwrap();
    }
    for (name, what) in names.into_iter().zip(["cache", "read SSD", "pair", "pair"]) {
        let pages: Vec<_> = [0, PAGE].into_iter().filter(|at| has_page(&site, name, *at)).collect();
        let id = uuid(&site, name, pages[0]);
        for version in [2, 0] {
            pages.iter().for_each(|at| reseal(&site, name, *at, version));
            let [path, new, second, third] =
                [name, "new.img", "second.img", "third.img"].map(|name| site.text(name));
            let commands: [&[&str]; 5] = [
                &["format", &path],
                &["format", "--read-ssd", &path],
                &["format", &new, "--mirror", &path],
                &["format", &new, "--mirror", &second, "--pair", &third, &path],
                &["format", &path, "--dry-run"],
            ];
            for command in commands {
                let said = refused(&site, &[name, "new.img"], || lode_fails(command));
                has_all(&said, &[what, &format!("format version {version}"), &id, "--force"]);
            }
        }
        // What is damaged was somebody's, too.
        pages.iter().for_each(|at| damage(&site, name, *at + 100));
        let said = refused(&site, &[name], || lode_fails(&["format", &site.text(name)]));
        has_all(&said, &["a damaged page of", what, "--force"]);
        lode_ok(&["format", &site.text(name), "--force"]);
    }
}

fn has_page(site: &Site, name: &str, at: usize) -> bool {
    page(site, name, at).starts_with(b"LODE")
}

fn damage(site: &Site, name: &str, at: usize) {
    let (file, mut byte) = (open(site, name), [0]);
    file.read_exact_at(&mut byte, at as u64).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at as u64).unwrap();
}

/// One page of another version is enough, whatever is beside it: whoever wrote it knows what this program does not.
#[test]
fn a_cache_with_one_page_of_another_version_is_not_served() {
    let site = Site::in_memory();
    serve_once(&site);
    let whole = fs::read(site.path("ssd.img")).unwrap();
    let id = uuid(&site, "ssd.img", 0);
    let last = DeviceLayout::directory(1) as usize + Directory::COPY_BYTES - PAGE;
    for at in [0, PAGE, DeviceLayout::directory(0) as usize, last] {
        for (version, words) in [(2, "a newer lode"), (0, "an older lode")] {
            fs::write(site.path("ssd.img"), &whole).unwrap();
            reseal(&site, "ssd.img", at, version);
            let said = refused(&site, &["ssd.img"], || site.serve_fails());
            has_all(&said, &[&format!("format version {version}"), words, &id]);
            assert!(!said.contains("lode format"), "{said}");
            let check = ["check", &site.text("test.toml")];
            let said = refused(&site, &["ssd.img"], || lode_fails(&check));
            has_all(&said, &[&format!("format version {version}"), &id]);
        }
    }
    fs::write(site.path("ssd.img"), &whole).unwrap();
    serve_once(&site);
}

#[test]
fn other_kinds_of_another_version_are_refused_by_their_names() {
    let site = Site::in_memory();
    lode_ok(&["format", &site.text("one.img"), "--mirror", &site.text("other.img"), "--create", "64MiB"]);
    let (pages, id): (Vec<_>, _) = (
        [0, PAGE].into_iter().filter(|at| has_page(&site, "one.img", *at)).collect(),
        uuid(&site, "one.img", PAGE),
    );
    pages.iter().for_each(|at| reseal(&site, "one.img", *at, 2));
    // Beside the other one of its pair it is not taken for one that was not given.
    for pair in [["one.img", "other.img"], ["other.img", "one.img"]] {
        let [first, second] = pair.map(|name| site.text(name));
        let output = lode(&["check", &first, &second, "--json"]);
        let [said, shown] = [output.stderr, output.stdout].map(|bytes| String::from_utf8(bytes).unwrap());
        has_all(&said, &["format version 2", &id, &site.text("one.img")]);
        assert!(!output.status.success() && !shown.contains("sound"), "{shown}");
    }
    fs::copy(site.path("one.img"), site.path("ssd.img")).unwrap();
    let said = refused(&site, &["ssd.img"], || site.serve_fails());
    has_all(&said, &["SSD of a Lodestore pair", "format version 2", &id]);
    assert!(!said.contains("lode format"), "{said}");
    let said = lode_fails(&["check", &site.text("ssd.img")]);
    has_all(&said, &["format version 2", &id]);
}

/// Of a device that does not say which cache it holds the host remembers it.
#[test]
fn what_is_left_of_a_cache_is_refused_with_its_identity_and_what_helps() {
    let site = Site::in_memory();
    serve_once(&site);
    let whole = fs::read(site.path("ssd.img")).unwrap();
    let id = uuid(&site, "ssd.img", 0);
    let put = |bytes: &[u8]| fs::write(site.path("ssd.img"), bytes).unwrap();
    let said_of = || refused(&site, &["ssd.img"], || site.serve_fails());
    // Cut short.
    put(&whole[..64 << 20]);
    has_all(&said_of(), &[&id, "restore the size"]);
    put(&whole[..PAGE]);
    has_all(&said_of(), &[&id, "smaller than a superblock"]);
    // Noise, and nothing.
    let noise: Vec<u8> =
        (0..2 * MIB).flat_map(|at: u64| at.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()).collect();
    for bytes in [&noise[..], &vec![0; whole.len()]] {
        put(bytes);
        has_all(
            &said_of(),
            &["holds no cache that can be read", &id, "`ssd.path`", "from a copy", "--force"],
        );
    }
    // Its directory is gone.
    let mut bytes = whole.clone();
    let start = DeviceLayout::directory(0) as usize;
    bytes[start..start + 2 * Directory::COPY_BYTES].fill(0);
    put(&bytes);
    has_all(&said_of(), &[&id, "Directory", "restore", "from a copy", "`lode format --force", "loses"]);
    put(&whole);
    serve_once(&site);
}
