//! Pages in headless Chromium, for the tests of whoever makes pages. It must not know what a page should show.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

const FLAGS: [&str; 12] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--virtual-time-budget=3000",
    "--enable-logging=stderr",
    "--dump-dom",
];

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
    let output = |name: &str| std::fs::File::create(folder.join(name)).unwrap();
    let spawned = Command::new("chromium")
        .args(FLAGS)
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(address)
        .stdin(Stdio::null())
        .stdout(output("dom"))
        .stderr(output("log"))
        .spawn();
    let Ok(mut browser) = spawned else {
        lode_testdata::skip("chromium is not installed");
        return None;
    };
    let start = Instant::now();
    while browser.try_wait().unwrap().is_none() {
        if start.elapsed() > LIMIT {
            browser.kill().unwrap();
            browser.wait().unwrap();
            panic!("Chromium did not finish in {LIMIT:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let read = |name| String::from_utf8_lossy(&std::fs::read(folder.join(name)).unwrap()).into_owned();
    Some((read("dom"), read("log")))
}

/// Contents of the elements that begin with `start`, up to the next tag.
pub fn texts<'a>(dom: &'a str, start: &str) -> Vec<&'a str> {
    dom.split(start).skip(1).filter_map(|rest| rest.split_once('>')?.1.split('<').next()).collect()
}
