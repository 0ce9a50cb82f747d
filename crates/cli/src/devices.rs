//! Hosts and drives by name or from a file. It must not know what their figures mean.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use lode_hardware::{Drive, HardwareError, Host, MAX_PROFILE_BYTES};

use crate::error::CliError;

/// The end of a name that means a file.
const FILE_ENDING: &str = ".toml";

/// The profile file that such a name stands for; none for what is built in.
pub fn profile_file(name: &str) -> Option<&Path> {
    name.ends_with(FILE_ENDING).then(|| Path::new(name))
}

/// The host of --devices, with its SSD bought as the drives of --drive.
///
/// # Errors
/// When there is none of that name, or a file cannot be read or understood.
pub fn find_host(name: &str, drive: Option<&str>) -> Result<Host, CliError> {
    let host = find(name, Host::find, Host::parse)?;
    let drive = drive.map(|drive| find(drive, Drive::find, Drive::parse)).transpose()?;
    Ok(drive.into_iter().fold(host, Host::with_drive))
}

/// A built-in device, or the one of a profile file if the name ends in `.toml`.
///
/// # Errors
/// When there is none of that name, or the file cannot be read or understood.
pub fn find<T>(
    name: &str,
    built_in: fn(&str) -> Result<T, HardwareError>,
    parse: fn(&str) -> Result<T, HardwareError>,
) -> Result<T, CliError> {
    if profile_file(name).is_none() {
        return built_in(name)
            .map_err(|error| CliError::Usage(format!("{error}; a profile file ends in {FILE_ENDING}")));
    }
    let text = read_profile(name)?;
    parse(&text).map_err(|error| CliError::Usage(format!("{name}: {error}")))
}

/// The text of a profile file.
///
/// # Errors
/// When it cannot be read, or is no text.
pub fn read_profile(name: &str) -> Result<String, CliError> {
    let cannot = |error| CliError::Failure(format!("Cannot read {name}: {error}; check path and rights"));
    let mut bytes = Vec::new();
    // One more than allowed, so that a larger file is refused and not cut.
    let limit = MAX_PROFILE_BYTES as u64 + 1;
    File::open(name).and_then(|file| file.take(limit).read_to_end(&mut bytes)).map_err(cannot)?;
    String::from_utf8(bytes)
        .map_err(|_| CliError::Usage(format!("{name} is not UTF-8 text; write a TOML profile")))
}
