//! Whether a profile can be: every number's range, with the place of one that is out of it. It must not know how
//! requests come of it.

use std::path::Path;

use crate::error::{SynthError, SynthErrorKind};
use crate::profile::{After, Again, Arrival, Pattern, Phase, Profile, Reuse, Sizes, Stream};

/// Longest text of a profile.
pub const MAX_PROFILE_BYTES: usize = 4 << 20;
/// Longest name of a profile.
pub const MAX_NAME_BYTES: usize = 64;
/// Most requests of a profile.
pub const MAX_REQUESTS: u64 = 1 << 48;
/// Largest footprint of a profile.
pub const MAX_FOOTPRINT_BYTES: u64 = 1 << 56;
/// Smallest and largest block of a profile.
pub const BLOCK_BYTES: (u64, u64) = (4096, 1 << 20);
/// Most blocks of a stream with the reuse pattern, about 30 bytes of memory each.
pub const MAX_REUSE_BLOCKS: u64 = 1 << 26;
/// Longest run of a stream with the reuse pattern.
pub const MAX_RUN_BYTES: u64 = 1 << 36;
/// Longest request of a profile.
pub const MAX_REQUEST_BYTES: u32 = 64 << 20;
/// Most entries of a list of sizes, gaps or distances.
pub const MAX_ENTRIES: usize = 4096;
/// Most phases of a profile.
pub const MAX_PHASES: usize = 1024;
/// Most streams of all phases together.
pub const MAX_STREAMS: usize = 1024;
/// Most places that a stream goes on from.
pub const MAX_PLACES: u32 = 1024;
/// Largest exponent of a zipf stream.
pub const MAX_EXPONENT: f64 = 4.0;
/// Slowest and fastest arrival, in requests a second.
pub const RATE: (f64, f64) = (1e-6, 1e9);
/// Longest mean burst, silence or gap, in seconds: more than 2^64 ns, so that every trace can be fitted.
pub const MAX_MEAN_S: f64 = 1e11;
/// How far a sum of shares may be from 1.
const SUM_TOLERANCE: f64 = 1e-6;

/// What is wrong and where, or nothing.
type Checked = Result<(), String>;

pub(crate) fn refused(name: impl AsRef<Path>, message: String) -> SynthError {
    SynthError::new(SynthErrorKind::Profile, name.as_ref(), message)
}

impl Profile {
    /// Reads a profile from TOML and checks it; `path` stands for it in messages.
    ///
    /// # Errors
    /// [`SynthErrorKind::Profile`] with the line, or the key, of what is wrong.
    pub fn parse(text: &str, path: impl AsRef<Path>) -> Result<Profile, SynthError> {
        let path = path.as_ref();
        if text.len() > MAX_PROFILE_BYTES {
            let message = format!("Profile longer than {MAX_PROFILE_BYTES} bytes; shorten its lists");
            return Err(refused(path, message));
        }
        let profile: Profile = toml::from_str(text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start));
            let line =
                before.map_or(String::new(), |text| format!("line {}: ", text.matches('\n').count() + 1));
            refused(
                path,
                format!("No profile: {line}{}; correct it, see docs/profiles.md", error.message().trim_end()),
            )
        })?;
        profile.check_as(path)?;
        Ok(profile)
    }

    /// Checks every number.
    ///
    /// # Errors
    /// [`SynthErrorKind::Profile`] with the key of the first one out of its range.
    pub fn check(&self) -> Result<(), SynthError> {
        self.check_as(Path::new(&self.name))
    }

    fn check_as(&self, path: &Path) -> Result<(), SynthError> {
        self.check_all().map_err(|fault| refused(path, format!("Profile {:?}: {fault}", self.name)))
    }

    fn check_all(&self) -> Checked {
        let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-.".contains(c);
        if self.name.is_empty() || self.name.len() > MAX_NAME_BYTES || !self.name.chars().all(good) {
            return Err(format!(
                "name is {:?}; write 1 to {MAX_NAME_BYTES} lower-case letters, digits, '_', '-' or '.'",
                self.name
            ));
        }
        whole_number("requests", self.requests, 1, MAX_REQUESTS)?;
        power_of_two("block_bytes", self.block_bytes, BLOCK_BYTES)?;
        whole_number("footprint_bytes", self.footprint_bytes, self.block_bytes, MAX_FOOTPRINT_BYTES)?;
        share("read_share", self.read_share)?;
        check_sizes(&self.sizes, self.block_bytes)?;
        check_arrival(&self.arrival)?;
        count("phase", self.phase.len(), MAX_PHASES)?;
        count("stream", self.phase.iter().map(|phase| phase.stream.len()).sum(), MAX_STREAMS)?;
        sum("share of the phases", self.phase.iter().map(|phase| phase.share))?;
        for (at, phase) in self.phase.iter().enumerate() {
            self.check_phase(phase).map_err(|fault| format!("phase {}: {fault}", at + 1))?;
        }
        Ok(())
    }

    fn check_phase(&self, phase: &Phase) -> Checked {
        share("share", phase.share)?;
        sum("weight of the streams", phase.stream.iter().map(|stream| stream.weight))?;
        for (at, stream) in phase.stream.iter().enumerate() {
            self.check_stream(stream).map_err(|fault| format!("stream {}: {fault}", at + 1))?;
        }
        Ok(())
    }

    fn check_stream(&self, stream: &Stream) -> Checked {
        share("weight", stream.weight)?;
        let (from, to) = stream.range;
        share("range", from)?;
        share("range", to)?;
        let read_share = stream.read_share.unwrap_or(self.read_share);
        share("read_share", read_share)?;
        share("sequential_share", stream.sequential_share)?;
        share("repeat_share", stream.repeat_share)?;
        whole_number("places", stream.places.into(), 1, MAX_PLACES.into())?;
        share("read_after_write_share", stream.read_after_write_share)?;
        for (what, needed, sizes) in
            [("read", read_share > 0.0, &self.sizes.read), ("write", read_share < 1.0, &self.sizes.write)]
        {
            if needed && sizes.is_empty() {
                return Err(format!(
                    "it has {what}s, but sizes.{what} is empty; add sizes or change read_share"
                ));
            }
        }
        let blocks = self.blocks_of(stream).1;
        let longest = self.longest_bytes();
        if blocks.saturating_mul(self.block_bytes) < longest.saturating_add(self.block_bytes) {
            return Err(format!(
                "range holds {blocks} blocks of {} bytes, but a request may have {longest} bytes and start inside a \
                 block; widen it, or shorten the requests",
                self.block_bytes
            ));
        }
        match &stream.pattern {
            Pattern::Random | Pattern::Loop => Ok(()),
            Pattern::Sequential { run_bytes } => {
                whole_number("sequential.run_bytes", *run_bytes, 1, MAX_FOOTPRINT_BYTES)
            }
            Pattern::Zipf { exponent } => number("zipf.exponent", *exponent, 0.0, MAX_EXPONENT),
            Pattern::Reuse(reuse) => self.check_reuse(reuse, stream, blocks, read_share),
        }
    }

    fn check_reuse(&self, reuse: &Reuse, stream: &Stream, blocks: u64, read_share: f64) -> Checked {
        whole_number("range: blocks of a reuse stream", blocks, 1, MAX_REUSE_BLOCKS)
            .map_err(|fault| format!("{fault}, or a larger block_bytes"))?;
        let least = (self.longest_bytes() + self.block_bytes).next_power_of_two();
        power_of_two("reuse.run_bytes", reuse.run_bytes, (least, MAX_RUN_BYTES))?;
        share("reuse.new_by_reads_share", reuse.new_by_reads_share)?;
        if stream.read_after_write_share > 0.0 {
            return Err(
                "read_after_write_share: with the reuse pattern, write it as read entries with after = \
                        \"write\""
                    .to_owned(),
            );
        }
        if read_share == 0.0 && reuse.new_by_reads_share > 0.0
            || read_share == 1.0 && reuse.new_by_reads_share < 1.0
        {
            return Err(format!(
                "reuse.new_by_reads_share is {}, but read_share is {read_share}; write the same",
                reuse.new_by_reads_share
            ));
        }
        check_again("reuse.read", &reuse.read, read_share > 0.0)?;
        check_again("reuse.write", &reuse.write, read_share < 1.0)
    }

    /// First block and number of blocks of a stream.
    pub(crate) fn blocks_of(&self, stream: &Stream) -> (u64, u64) {
        let blocks = (self.footprint_bytes / self.block_bytes) as f64;
        let at = |share: f64| libm::round(blocks * share) as u64;
        (at(stream.range.0), at(stream.range.1).saturating_sub(at(stream.range.0)))
    }

    /// The longest request that there may be, in bytes.
    pub(crate) fn longest_bytes(&self) -> u64 {
        self.sizes.read.iter().chain(&self.sizes.write).map(|&(bytes, _)| bytes.into()).max().unwrap_or(0)
    }
}

fn check_sizes(sizes: &Sizes, block_bytes: u64) -> Checked {
    share("sizes.aligned_share", sizes.aligned_share)?;
    power_of_two("sizes.alignment_bytes", sizes.alignment_bytes, (1, block_bytes))?;
    for (name, list) in [("sizes.read", &sizes.read), ("sizes.write", &sizes.write)] {
        for &(bytes, _) in list {
            whole_number(name, bytes.into(), 1, MAX_REQUEST_BYTES.into())?;
        }
        if !list.is_empty() {
            weights(name, list.iter().map(|&(_, weight)| weight))?;
        }
    }
    Ok(())
}

fn check_arrival(arrival: &Arrival) -> Checked {
    match arrival {
        Arrival::Constant { requests_per_s } | Arrival::Poisson { requests_per_s } => {
            number("arrival.requests_per_s", *requests_per_s, RATE.0, RATE.1)
        }
        Arrival::OnOff { requests_per_s, on_s, off_s } => {
            number("arrival.requests_per_s", *requests_per_s, RATE.0, RATE.1)?;
            // Else a request could take any number of bursts to come.
            number("arrival.on_s", *on_s, 1.0 / requests_per_s, MAX_MEAN_S)?;
            number("arrival.off_s", *off_s, 0.0, MAX_MEAN_S)
        }
        Arrival::Gaps { gaps_us } => {
            for &(mean_us, _) in gaps_us {
                number("arrival.gaps_us", mean_us, 0.0, MAX_MEAN_S * 1e6)?;
            }
            weights("arrival.gaps_us", gaps_us.iter().map(|&(_, weight)| weight))
        }
    }
}

fn check_again(name: &str, list: &[Again], is_needed: bool) -> Checked {
    if list.is_empty() {
        let missing =
            format!("{name} is missing, and read_share says that there are such requests; write distances");
        return if is_needed { Err(missing) } else { Ok(()) };
    }
    let mut seen: Vec<Option<After>> = Vec::new();
    for again in list {
        if seen.iter().any(|&after| after.is_none() || again.after.is_none() || after == again.after) {
            return Err(format!(
                "{name}: two entries are after the same; write one for each of read and write, or one"
            ));
        }
        seen.push(again.after);
        share(&format!("{name}.share"), again.share)?;
        let name = format!("{name}.distances");
        weights(&name, again.distances.iter().map(|&(_, weight)| weight))?;
        let mut before = 0;
        for &(end, _) in &again.distances {
            if end <= before || end > u64::from(u32::MAX) {
                return Err(format!(
                    "{name}: {end} follows {before}; write ascending numbers from 1 to 4294967295"
                ));
            }
            before = end;
        }
    }
    sum(&format!("{name}.share of all entries"), list.iter().map(|again| again.share))
}

fn number(name: &str, value: f64, least: f64, most: f64) -> Checked {
    // Written so that NaN is refused too.
    if value >= least && value <= most {
        Ok(())
    } else {
        Err(format!("{name} is {value}; write {least} to {most}"))
    }
}

fn share(name: &str, value: f64) -> Checked {
    number(name, value, 0.0, 1.0)
}

fn whole_number(name: &str, value: u64, least: u64, most: u64) -> Checked {
    if (least..=most).contains(&value) {
        Ok(())
    } else {
        Err(format!("{name} is {value}; write {least} to {most}"))
    }
}

fn power_of_two(name: &str, value: u64, (least, most): (u64, u64)) -> Checked {
    whole_number(name, value, least, most)?;
    if value.is_power_of_two() { Ok(()) } else { Err(format!("{name} is {value}; write a power of two")) }
}

fn count(name: &str, count: usize, most: usize) -> Checked {
    whole_number(&format!("number of [[{name}]]"), count as u64, 1, most as u64)
}

fn sum(name: &str, shares: impl Iterator<Item = f64>) -> Checked {
    let sum: f64 = shares.sum();
    let is_one = (sum - 1.0).abs() <= SUM_TOLERANCE;
    if is_one { Ok(()) } else { Err(format!("{name} adds up to {sum}; change it so that it is 1")) }
}

fn weights(name: &str, list: impl ExactSizeIterator<Item = f64> + Clone) -> Checked {
    whole_number(&format!("{name}: number of entries"), list.len() as u64, 1, MAX_ENTRIES as u64)?;
    for weight in list.clone() {
        number(&format!("{name}: weight"), weight, 0.0, 1e15)?;
    }
    if list.sum::<f64>() > 0.0 { Ok(()) } else { Err(format!("{name}: no weight is above 0; give one more")) }
}
