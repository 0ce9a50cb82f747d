//! What must hold when the sidecar of a backing disk is read from any text.

use std::path::Path;

use lode_server::{ServerErrorKind, Sidecar};

/// Reads a sidecar and says whether it was accepted. One that was says the same when it is written and read again; the refusal of another
/// names the file.
pub fn check(data: &[u8]) -> bool {
    const NAME: &str = "fuzz.sidecar";
    match Sidecar::parse(data.to_vec(), Path::new(NAME)) {
        Ok(sidecar) => {
            let text = sidecar.to_text().expect("what was read can be written");
            let again = Sidecar::parse(text.into_bytes(), Path::new(NAME));
            assert_eq!(again.ok(), Some(sidecar));
            true
        }
        Err(error) => {
            assert_eq!(error.kind(), ServerErrorKind::Identity);
            assert!(error.to_string().contains(NAME), "{error}");
            false
        }
    }
}
