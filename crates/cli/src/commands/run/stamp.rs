//! What a result was made of: a hash of the program, the command's words, and the names and bytes of the traces and other files. A step whose
//! results have the stamp that they would get is not run again.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::experiment::Step;
use crate::error::CliError;

/// Bytes read at once.
const CHUNK_BYTES: usize = 1 << 20;

/// What is kept beside results.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// SHA-256 of the program, the words and the inputs, as hexadecimal digits.
    pub hash: String,
    /// Version of the program.
    pub version: String,
    /// The program itself: two builds of one version need not decide alike.
    pub program: Stamped,
    /// What the step is called as, without traces and outputs.
    pub words: Vec<String>,
    /// The traces, and then other files, in their order.
    pub inputs: Vec<Stamped>,
    /// The results.
    pub outputs: Vec<Stamped>,
}

/// A file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamped {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// SHA-256 of its bytes, as hexadecimal digits.
    pub sha256: String,
}

impl Stamped {
    /// Of a file.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn of(path: &Path) -> Result<Stamped, CliError> {
        let failed = |error: std::io::Error| {
            CliError::Failure(format!("Cannot read {}: {error}; check path and rights", path.display()))
        };
        let (mut file, mut hash) = (File::open(path).map_err(failed)?, Sha256::new());
        let (mut buf, mut bytes) = (vec![0; CHUNK_BYTES], 0);
        loop {
            let length = file.read(&mut buf).map_err(failed)?;
            if length == 0 {
                break;
            }
            hash.update(&buf[..length]);
            bytes += length as u64;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Stamped { name, bytes, sha256: hex(&hash.finalize()) })
    }
}

impl Stamp {
    /// What the results of a step would have, made by this program of these inputs; without the results.
    pub fn of(step: &Step, program: &Stamped, inputs: Vec<Stamped>) -> Stamp {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let words: Vec<String> =
            std::iter::once(&step.command).chain(&step.options).chain(&step.outputs).cloned().collect();
        let mut hash = Sha256::new();
        let files = inputs.iter().flat_map(|input| [&input.name, &input.sha256]);
        for word in std::iter::once(&program.sha256).chain(&words).chain(files) {
            hash.update((word.len() as u64).to_le_bytes());
            hash.update(word);
        }
        let hash = hex(&hash.finalize());
        Stamp { hash, version, program: program.clone(), words, inputs, outputs: Vec::new() }
    }

    /// Where the stamp of a step is.
    pub fn path(results: &Path, step: &Step) -> PathBuf {
        results.join(format!("{}.stamp", step.name))
    }

    /// Whether results of a step are there that were made of the same, and are as they were then.
    pub fn holds(&self, results: &Path, step: &Step) -> bool {
        let text = std::fs::read_to_string(Stamp::path(results, step)).ok();
        let kept = text.and_then(|text| serde_json::from_str::<Stamp>(&text).ok());
        let is_same =
            |output: &Stamped| Stamped::of(&results.join(&output.name)).is_ok_and(|now| now == *output);
        kept.is_some_and(|kept| kept.hash == self.hash && kept.outputs.iter().all(is_same))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
