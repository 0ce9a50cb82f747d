//! Running the program, and traces to run it on.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Ticks of 100 ns: some day in 2007.
const FIRST_TICK: u64 = 128_166_372_000_000_000;

/// Bytes of a block.
pub const BLOCK: u64 = 4096;

pub fn lode(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lode")).args(arguments).stdin(Stdio::null()).output().expect("it starts")
}

/// Standard output and standard error of a run that must succeed.
pub fn both(arguments: &[&str]) -> (String, String) {
    let output = lode(arguments);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {err}");
    (out, err)
}

/// Standard output of a run that must succeed.
pub fn good(arguments: &[&str]) -> String {
    both(arguments).0
}

/// The JSON of a run that must succeed.
pub fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&good(&[arguments, &["--json"]].concat())).expect("JSON")
}

/// Standard error of a run that must fail with this code and print no result.
pub fn bad(arguments: &[&str], code: i32) -> String {
    let output = lode(arguments);
    let message = String::from_utf8(output.stderr.clone()).expect("UTF-8");
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    assert!(message.starts_with("lode: "), "{arguments:?}: {message}");
    message
}

pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a folder"))
    }

    pub fn root(&self) -> &Path {
        self.0.path()
    }

    pub fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("UTF-8").to_owned()
    }

    pub fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        std::fs::write(self.0.path().join(name), bytes).expect("a file");
        self.path(name)
    }
}

/// One VM of a made trace.
pub struct Guest<'a> {
    pub name: &'a str,
    pub blocks: u64,
    /// Reads of a hundred requests.
    pub reads: u64,
}

/// Two VMs that want different things: one mostly reads few blocks, one mostly writes more.
pub const TWO: [Guest<'static>; 2] =
    [Guest { name: "web", blocks: 400, reads: 80 }, Guest { name: "db", blocks: 900, reads: 40 }];

/// A trace in MSR's CSV of so many requests, a minute apart, so that years are told of more than a day, the guests in turn; low blocks more often than high ones.
pub fn msr_csv(guests: &[Guest<'_>], requests: u64) -> String {
    let mut state = 1_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut text = String::new();
    for number in 0..requests {
        let guest = &guests[(number % guests.len() as u64) as usize];
        let op = if random(100) < guest.reads { "Read" } else { "Write" };
        let block = random(guest.blocks) * random(guest.blocks) / guest.blocks;
        let bytes = BLOCK * (1 + random(3) / 2);
        let tick = FIRST_TICK + number * 600_000_000;
        text += &format!("{tick},{},0,{op},{},{bytes},100\n", guest.name, block * BLOCK);
    }
    text
}

/// The trace of [`TWO`], as a file.
pub fn two_vms(folder: &Folder) -> String {
    folder.file("two.csv", msr_csv(&TWO, 3000))
}

/// The committed trace of a name, and the public one that it is like where that is there.
pub fn traces(name: &str) -> impl Iterator<Item = String> {
    lode_testdata::traces(name).into_iter().map(|trace| trace.path.to_str().expect("UTF-8").to_owned())
}

pub fn whole(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no whole number"))
}

pub fn real(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

pub fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list"))
}

/// A report without the lines that have the command it was made with.
pub fn without_command(text: &str) -> String {
    text.lines().filter(|line| !line.contains(": lode ")).collect::<Vec<_>>().join("\n")
}

/// Points of a curve, from its JSON form.
pub fn points(curve: &Value) -> Vec<(u64, f64)> {
    list(curve).iter().map(|point| (whole(&point[0]), real(&point[1]))).collect()
}

/// That a curve begins without a cache, and that more is never worse.
pub fn assert_curve(points: &[(u64, f64)]) {
    assert_eq!(points.first(), Some(&(0, 0.0)));
    assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1), "{points:?}");
    assert!(points.iter().all(|point| (0.0..=1.0).contains(&point.1)), "{points:?}");
}
