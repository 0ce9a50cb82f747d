//! Runs one test function against both drivers.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use lode_media::{AnyDriver, Done, Driver, DriverChoice, open_driver};

/// Nothing in these tests takes this long unless it hangs.
pub const LONG: Duration = Duration::from_secs(20);

const SIGPIPE: i32 = 13;
const SIG_DFL: usize = 0;

unsafe extern "C" {
    fn signal(signum: i32, handler: usize) -> usize;
}

/// Opens the driver, or says why it is skipped.
pub fn open(choice: DriverChoice) -> Option<AnyDriver> {
    // SAFETY: restores the default action of a signal that the Rust runtime ignores, so that a driver that
    // raises it is found out. No handler is involved.
    unsafe { signal(SIGPIPE, SIG_DFL) };
    match open_driver(choice, lode_media::SPIN_LIMIT) {
        Ok((driver, _)) => Some(driver),
        Err(fault) => {
            lode_testdata::skip(&fault);
            None
        }
    }
}

/// Defines a module with one test for each driver; both run the same body.
#[macro_export]
macro_rules! both {
    ($name:ident, $body:expr) => {
        mod $name {
            use super::*;

            #[test]
            fn uring() {
                if let Some(mut driver) = common::open(lode_media::DriverChoice::Uring) {
                    ($body)(&mut driver);
                }
            }

            #[test]
            fn threads() {
                if let Some(mut driver) = common::open(lode_media::DriverChoice::Threads) {
                    ($body)(&mut driver);
                }
            }
        }
    };
}

/// Waits until `count` operations have ended, and returns them by token.
pub fn gather(driver: &mut AnyDriver, count: usize) -> Vec<Done> {
    let mut done = Vec::new();
    let start = Instant::now();
    while done.len() < count {
        driver.wait(Some(LONG), &mut done).unwrap();
        assert!(start.elapsed() < LONG, "{} of {count} operations ended", done.len());
    }
    assert_eq!(done.len(), count);
    done.sort_by_key(|done| done.token);
    done
}

/// A folder on the disk of the build, where direct I/O usually works.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(PathBuf::from(env!("CARGO_TARGET_TMPDIR"))).unwrap()
}
