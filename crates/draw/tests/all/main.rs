//! Pictures and pages as their readers get them.

mod browser;
#[path = "../chromium/mod.rs"]
mod chromium;
mod hostile;
mod pages;
mod pictures;
mod report;
#[path = "../sample/mod.rs"]
mod sample;
mod speed;
