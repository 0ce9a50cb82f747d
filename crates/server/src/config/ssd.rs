//! The sections of the SSDs. It must not open them.

use std::collections::HashSet;
use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;

use lode_format::{CacheId, PairLabel};
use lode_hardware::RATED_TB_BYTES;
use lode_types::BlockSize;
use serde::Deserialize;
use toml::Spanned;

use super::raw::Fault;
use super::{DEFAULT_RESILVER, DEFAULT_SSD_TIMEOUT, MAX_SSD_TIMEOUT, Period, ResilverRates, Size, SsdConfig};

/// Ratings that an SSD may have.
const RATED_TB: RangeInclusive<f64> = 0.001..=1e6;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table { path = \"/dev/nvme1n1\" }")]
pub(super) struct RawSsd {
    path: Option<Spanned<PathBuf>>,
    mirror: Option<Spanned<PathBuf>>,
    pairs: Option<Spanned<Vec<Vec<PathBuf>>>>,
    timeout: Option<Spanned<Period>>,
    resilver_rate: Option<Spanned<Size>>,
    resilver_min_rate: Option<Spanned<Size>>,
    written_tb: Option<Spanned<f64>>,
    uuid: Option<Spanned<String>>,
}

/// The device, or the first one, and the pairs of devices, none of them where there is one device.
type Devices = (PathBuf, Vec<[PathBuf; 2]>);

/// What the section says. `at` is where it says so.
pub(super) fn check(ssd: Spanned<RawSsd>) -> Result<SsdConfig, Fault> {
    let (at, ssd) = (ssd.span(), ssd.into_inner());
    let parse = |text: Spanned<String>| {
        let wrong = "Key 'uuid' is not a cache's identity; `lode format` printed it";
        text.get_ref().parse::<CacheId>().map_err(|_| Fault::at(text.span(), wrong))
    };
    let of_members = of_members(&ssd);
    let (path, pairs) = match ssd.pairs {
        None => devices(ssd.path, ssd.mirror, at)?,
        Some(pairs) => devices_of_pairs(pairs, ssd.path.as_ref().or(ssd.mirror.as_ref()))?,
    };
    if let Some(span) = of_members.filter(|_| pairs.is_empty()) {
        let message = "Keys 'timeout', 'resilver_rate' and 'resilver_min_rate' are of a pair of SSDs; add 'mirror', or remove them until the \
                       second SSD comes";
        return Err(Fault::at(span, message));
    }
    let timeout = match ssd.timeout {
        None => DEFAULT_SSD_TIMEOUT,
        Some(period) => period.get_ref().0.filter(|limit| *limit <= MAX_SSD_TIMEOUT).ok_or_else(|| {
            let most = MAX_SSD_TIMEOUT.as_secs();
            Fault::at(
                period.span(),
                format!("Key 'timeout' takes a time of at most {most} s, such as \"10s\""),
            )
        })?,
    };
    let resilver = resilver_rates(ssd.resilver_rate, ssd.resilver_min_rate)?;
    let rated_write_bytes = ssd.written_tb.map(rated_bytes).transpose()?;
    let uuid = ssd.uuid.map(parse).transpose()?;
    Ok(SsdConfig { path, pairs, timeout, resilver, rated_write_bytes, uuid })
}

/// Where it says something that only members of pairs have.
fn of_members(ssd: &RawSsd) -> Option<Range<usize>> {
    let timeout = ssd.timeout.as_ref().map(Spanned::span);
    let rates = [&ssd.resilver_rate, &ssd.resilver_min_rate];
    timeout.or_else(|| rates.into_iter().flatten().map(Spanned::span).next())
}

fn resilver_rates(most: Option<Spanned<Size>>, least: Option<Spanned<Size>>) -> Result<ResilverRates, Fault> {
    let most_bytes = match most {
        None => DEFAULT_RESILVER.most_bytes,
        Some(rate) if rate.get_ref().0 < BlockSize::MAX_BYTES => {
            let message = "Key 'resilver_rate' is less than 64 KiB a second; a resilver would never end";
            return Err(Fault::at(rate.span(), message));
        }
        Some(rate) => rate.into_inner().0,
    };
    let least_bytes = match least {
        None => DEFAULT_RESILVER.least_bytes.min(most_bytes),
        Some(rate) if rate.get_ref().0 > most_bytes => {
            let message =
                format!("Key 'resilver_min_rate' is more than 'resilver_rate', {}", Size(most_bytes));
            return Err(Fault::at(rate.span(), message));
        }
        Some(rate) => rate.into_inner().0,
    };
    Ok(ResilverRates { most_bytes, least_bytes })
}

/// Of one device, or one pair.
fn devices(
    path: Option<Spanned<PathBuf>>,
    mirror: Option<Spanned<PathBuf>>,
    at: Range<usize>,
) -> Result<Devices, Fault> {
    let Some(path) = path.map(Spanned::into_inner) else {
        return Err(Fault::at(at, "Key 'path' is missing; add it"));
    };
    let Some(mirror) = mirror else { return Ok((path, Vec::new())) };
    if *mirror.get_ref() == path {
        let message = "Key 'mirror' is the same path as 'path'; a pair is two SSDs";
        return Err(Fault::at(mirror.span(), message));
    }
    let pair = [path.clone(), mirror.into_inner()];
    Ok((path, vec![pair]))
}

/// Of several pairs. `other` is a key that names a device beside them.
fn devices_of_pairs(
    pairs: Spanned<Vec<Vec<PathBuf>>>,
    other: Option<&Spanned<PathBuf>>,
) -> Result<Devices, Fault> {
    if let Some(other) = other {
        let message = "Key 'pairs' names all SSDs of the cache; take 'path' and 'mirror' out, or 'pairs' where there is one pair";
        return Err(Fault::at(other.span(), message));
    }
    let span = pairs.span();
    let two = |paths: Vec<PathBuf>| <[PathBuf; 2]>::try_from(paths);
    let Ok(pairs) = pairs.into_inner().into_iter().map(two).collect::<Result<Vec<_>, _>>() else {
        let message = "Key 'pairs' takes two paths for each pair, such as [[\"/dev/a\", \"/dev/b\"], [\"/dev/c\", \"/dev/d\"]]";
        return Err(Fault::at(span, message));
    };
    if pairs.len() < 2 {
        let message = "Key 'pairs' is of two pairs or more; name one pair with 'path' and 'mirror'";
        return Err(Fault::at(span, message));
    }
    if pairs.len() > PairLabel::MOST_PAIRS {
        let message =
            format!("Key 'pairs' has {} pairs; a cache has {} at most", pairs.len(), PairLabel::MOST_PAIRS);
        return Err(Fault::at(span, message));
    }
    let mut named = HashSet::new();
    if let Some(twice) = pairs.iter().flatten().find(|path| !named.insert(*path)) {
        let message =
            format!("Key 'pairs' names {} twice; each pair is two SSDs of its own", twice.display());
        return Err(Fault::at(span, message));
    }
    Ok((pairs[0][0].clone(), pairs))
}

/// A rating as vendors give it, in TB of 10^12 bytes.
fn rated_bytes(tb: Spanned<f64>) -> Result<u64, Fault> {
    match *tb.get_ref() {
        rated if RATED_TB.contains(&rated) => Ok((rated * RATED_TB_BYTES) as u64),
        _ => {
            let [least, most] = [RATED_TB.start(), RATED_TB.end()];
            let message = format!(
                "Key 'written_tb' takes the TB (10^12 bytes) that the SSD is rated for in all, from {least} to {most}"
            );
            Err(Fault::at(tb.span(), message))
        }
    }
}

/// Refuses what only cache SSDs have.
pub(super) fn check_no_pair(ssd: Spanned<RawSsd>) -> Result<Spanned<RawSsd>, Fault> {
    let of_ssd = ssd.get_ref();
    if let Some(rated) = &of_ssd.written_tb {
        return Err(Fault::at(
            rated.span(),
            "Key 'written_tb' is of [ssd]: what is written to a read SSD is not shown beside a rating",
        ));
    }
    let devices = of_ssd.mirror.as_ref().map(Spanned::span).or(of_ssd.pairs.as_ref().map(Spanned::span));
    match devices.or_else(|| of_members(of_ssd)) {
        Some(span) => {
            let message = "Keys 'mirror', 'pairs', 'timeout', 'resilver_rate' and 'resilver_min_rate' are of [ssd]: nothing is only on a \
                           read SSD";
            Err(Fault::at(span, message))
        }
        None => Ok(ssd),
    }
}
