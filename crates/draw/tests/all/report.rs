//! What a page says in headless Chromium while it works in real time: a script in it calls `say(name, value)`. In virtual time, as
//! in the other tests, what is done beside scripts, such as reading a picture, may come too late.

use std::path::Path;
use std::time::Instant;

use crate::chromium;

/// The function with which a page says something.
pub const SAY: &str = "const say = (name, value) => console.log(`SAID ${name}=${value} END`);\n";

/// Something that a page said.
pub struct Report {
    pub name: String,
    pub value: String,
}

/// Calls `hear` with everything that the page at `address` says and the number of the browser's process, until that is true.
/// `None`: there is no browser. Fails if the page says too little in the time that a browser may take.
pub fn listen(folder: &Path, address: &str, mut hear: impl FnMut(Report, u32) -> bool) -> Option<()> {
    let mut browser = chromium::start(folder, &[], address)?;
    let start = Instant::now();
    let (mut heard, mut is_over) = (0, false);
    while !is_over && start.elapsed() < chromium::LIMIT && browser.try_wait().unwrap().is_none() {
        std::thread::sleep(chromium::PAUSE);
        let log = chromium::read(folder, "log");
        let said = log.split("SAID ").skip(1).filter_map(|rest| rest.split_once(" END")?.0.split_once('='));
        for (name, value) in said.skip(heard) {
            heard += 1;
            is_over = hear(Report { name: name.to_owned(), value: value.to_owned() }, browser.id());
        }
    }
    browser.kill().unwrap();
    browser.wait().unwrap();
    assert!(is_over, "{}", chromium::read(folder, "log"));
    Some(())
}
