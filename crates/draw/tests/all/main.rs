//! Pictures and pages as their readers get them.

mod browser;
mod hostile;
mod pages;
mod pictures;
#[path = "../sample/mod.rs"]
mod sample;
