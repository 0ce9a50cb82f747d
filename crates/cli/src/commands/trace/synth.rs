//! `lode trace synth`: a profile in, a synthetic trace out.

use std::path::{Path, PathBuf};

use clap::Args;
use lode_synth::check::{MAX_PROFILE_BYTES, MAX_REQUESTS};
use lode_synth::{Generator, Profile, builtin, builtins};
use lode_trace::{create_compact, limits};

use crate::amounts::{show_count, show_size};
use crate::error::CliError;
use crate::output;
use crate::progress::Counter;
use crate::target::{Target, is_standard_output};

/// Make a synthetic trace from a profile
#[derive(Args)]
#[command(after_help = "\
Example: lode trace synth hm_1 -o hm_1.lode.zst --requests 100000

PROFILE is a TOML file or the name of a profile that comes with lode. The trace's volume is called synthetic:NAME, and
keeps that name wherever the trace is converted. docs/profiles.md describes the profiles and their format.")]
pub struct SynthCommand {
    /// A TOML file, or one of the names that --list shows.
    #[arg(value_name = "PROFILE", required_unless_present_any = ["list", "show"])]
    profile: Option<String>,

    /// The file to write: NAME.lode, or NAME.lode.zst to be compressed; - is standard output.
    #[arg(long, short, value_name = "FILE", required_unless_present_any = ["list", "show"])]
    output: Option<PathBuf>,

    /// Stop after so many requests, or go on up to as many, instead of the profile's own number.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_REQUESTS))]
    requests: Option<u64>,

    /// Start chance from another seed than the profile's.
    #[arg(long, value_name = "S")]
    seed: Option<u64>,

    /// Make the whole workload smaller or larger: requests, footprint and distances times this factor.
    #[arg(long, value_name = "FACTOR")]
    scale: Option<f64>,

    /// List the profiles that come with lode.
    #[arg(long, conflicts_with_all = ["profile", "output", "show"])]
    list: bool,

    /// Print a profile that comes with lode, to be changed and given as a file.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["profile", "output"])]
    show: Option<String>,
}

impl SynthCommand {
    /// Lists, shows or makes.
    pub fn run(&self) -> Result<(), CliError> {
        if self.list {
            return list();
        }
        if let Some(name) = &self.show {
            let text = builtins().find(|(known, _)| known == name).map(|(_, text)| text);
            return output::write(text.ok_or_else(|| unknown(name))?);
        }
        let (Some(profile), Some(wanted)) = (&self.profile, &self.output) else {
            return Err(CliError::Usage("Give a profile, and the file to write with -o".to_owned()));
        };
        let mut generator = Generator::new(&self.adjusted(load(profile)?)?)?;
        let requests = self.requests.unwrap_or(generator.requests());
        let target = Target::compact(wanted, &[profile])?;
        let made = make(&mut generator, requests, &target.written).and_then(|()| target.publish());
        made.inspect_err(|_| target.discard())?;
        if is_standard_output(wanted) {
            return Ok(());
        }
        output::write(&format!(
            "Wrote {} of {} to {}\n",
            show_count(requests, "synthetic request"),
            generator.volume(),
            wanted.display()
        ))
    }

    /// The profile with what the command line changes.
    fn adjusted(&self, mut profile: Profile) -> Result<Profile, CliError> {
        if let Some(factor) = self.scale {
            if !(factor > 0.0 && factor.is_finite()) {
                return Err(CliError::Usage(format!("--scale is {factor}; write a number above 0")));
            }
            profile = profile.scaled(factor);
        }
        profile.seed = self.seed.unwrap_or(profile.seed);
        Ok(profile)
    }
}

/// The profile in a file, or the one that comes with the program. A name with a dot or a slash is a file's.
fn load(name: &str) -> Result<Profile, CliError> {
    if let Some(profile) = builtin(name)? {
        return Ok(profile);
    }
    let path = Path::new(name);
    if !path.exists() && !name.contains(['.', '/']) {
        return Err(unknown(name));
    }
    let failed = |error: std::io::Error| {
        CliError::Failure(format!("Cannot read the profile {name}: {error}; check its path and rights"))
    };
    let bytes = path.metadata().map_err(failed)?.len();
    if bytes > MAX_PROFILE_BYTES as u64 {
        return Err(CliError::Failure(format!(
            "The profile {name} has {bytes} bytes, more than {MAX_PROFILE_BYTES}; shorten its lists"
        )));
    }
    Ok(Profile::parse(&std::fs::read_to_string(path).map_err(failed)?, path)?)
}

fn unknown(name: &str) -> CliError {
    CliError::Usage(format!("No profile is called {name}; see lode trace synth --list, or name a file"))
}

fn make(generator: &mut Generator, requests: u64, path: &Path) -> Result<(), CliError> {
    let mut writer = create_compact(path)?;
    let volumes = [generator.volume().to_owned()];
    let (mut batch, mut left) = (Vec::new(), requests);
    let bar = Counter::new("Making", "requests", requests);
    while left > 0 {
        let count = left.min(limits::BATCH_REQUESTS as u64);
        generator.next_batch(&mut batch, count as usize);
        writer.write(&volumes, &batch)?;
        left -= count;
        bar.update(requests - left);
    }
    writer.close()?;
    Ok(())
}

fn list() -> Result<(), CliError> {
    let mut table = output::table(&["profile", "workload", "requests", "reads %", "footprint"], 2);
    for (name, text) in builtins() {
        let profile = Profile::parse(text, name)?;
        table.add_row([
            profile.name,
            profile.about,
            profile.requests.to_string(),
            output::percent(Some(profile.read_share)),
            show_size(profile.footprint_bytes),
        ]);
    }
    output::write(&format!("{table}\n"))
}
