//! Pages in headless Chromium, for the tests of whoever makes pages. It must not know what a page should show.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a browser may take.
pub const LIMIT: Duration = Duration::from_secs(60);
/// Between two looks at it.
pub const PAUSE: Duration = Duration::from_millis(20);

const FLAGS: [&str; 10] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
];

/// The page is shown when three seconds of its time have passed, which take no longer than its scripts do.
const SHOW_AT_END: [&str; 2] = ["--virtual-time-budget=3000", "--dump-dom"];

/// The page in `file` with this fragment of an address, after its script has run, or none where there is no browser.
/// Fails if anything was written to the console, or the script did not come to its end.
pub fn opened(file: &Path, fragment: &str) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let (dom, log) = browse(folder.path(), &format!("file://{}{fragment}", file.display()))?;
    let complaints: Vec<&str> = log.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(complaints.is_empty(), "{complaints:?}");
    assert!(dom.contains("class=\"alive\""), "the script did not come to its end: {log}");
    Some(dom)
}

/// What Chromium makes of an address, and its log.
pub fn browse(folder: &Path, address: &str) -> Option<(String, String)> {
    let mut browser = start(folder, &SHOW_AT_END, address)?;
    let start = Instant::now();
    while browser.try_wait().unwrap().is_none() {
        if start.elapsed() > LIMIT {
            browser.kill().unwrap();
            browser.wait().unwrap();
            panic!("Chromium did not finish in {LIMIT:?}");
        }
        std::thread::sleep(PAUSE);
    }
    Some((read(folder, "dom"), read(folder, "log")))
}

/// Begins with a profile of its own in `folder`, where its output and log go.
pub fn start(folder: &Path, more: &[&str], address: &str) -> Option<Child> {
    let output = |name: &str| std::fs::File::create(folder.join(name)).unwrap();
    let spawned = Command::new("chromium")
        .args(FLAGS)
        .args(more)
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(address)
        .stdin(Stdio::null())
        .stdout(output("dom"))
        .stderr(output("log"))
        .spawn();
    if spawned.is_err() {
        lode_testdata::skip("chromium is not installed");
    }
    spawned.ok()
}

/// What a browser that began in `folder` has written so far: its `dom` or its `log`.
pub fn read(folder: &Path, name: &str) -> String {
    String::from_utf8_lossy(&std::fs::read(folder.join(name)).unwrap()).into_owned()
}

/// Contents of the elements that begin with `start`, up to the next tag.
pub fn texts<'a>(dom: &'a str, start: &str) -> Vec<&'a str> {
    dom.split(start).skip(1).filter_map(|rest| rest.split_once('>')?.1.split('<').next()).collect()
}
