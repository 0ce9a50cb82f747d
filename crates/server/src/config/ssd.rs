//! The sections of the SSDs. It must not open them.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use lode_format::CacheId;
use lode_hardware::RATED_TB_BYTES;
use lode_types::BlockSize;
use serde::Deserialize;
use toml::Spanned;

use super::raw::Fault;
use super::{DEFAULT_RESILVER_BYTES, DEFAULT_SSD_TIMEOUT, MAX_SSD_TIMEOUT, Period, Size, SsdConfig};

/// Ratings that an SSD may have.
const RATED_TB: RangeInclusive<f64> = 0.001..=1e6;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table { path = \"/dev/nvme1n1\" }")]
pub(super) struct RawSsd {
    path: PathBuf,
    mirror: Option<Spanned<PathBuf>>,
    timeout: Option<Spanned<Period>>,
    resilver_rate: Option<Spanned<Size>>,
    written_tb: Option<Spanned<f64>>,
    uuid: Option<Spanned<String>>,
}

/// What the section says.
pub(super) fn check(ssd: RawSsd) -> Result<SsdConfig, Fault> {
    let parse = |text: Spanned<String>| {
        let wrong = "Key 'uuid' is not a cache's identity; `lode format` printed it";
        text.get_ref().parse::<CacheId>().map_err(|_| Fault::at(text.span(), wrong))
    };
    if let Some(mirror) = ssd.mirror.as_ref().filter(|mirror| *mirror.get_ref() == ssd.path) {
        let message = "Key 'mirror' is the same path as 'path'; a pair is two SSDs";
        return Err(Fault::at(mirror.span(), message));
    }
    let mut of_pair =
        [ssd.timeout.as_ref().map(Spanned::span), ssd.resilver_rate.as_ref().map(Spanned::span)].into_iter();
    if let Some(span) = of_pair.find_map(|span| span).filter(|_| ssd.mirror.is_none()) {
        let message =
            "Keys 'timeout' and 'resilver_rate' are of a pair of SSDs; add 'mirror', or remove them";
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
    let resilver_rate_bytes = match ssd.resilver_rate {
        None => DEFAULT_RESILVER_BYTES,
        Some(rate) if rate.get_ref().0 < BlockSize::MAX_BYTES => {
            let message = "Key 'resilver_rate' is less than 64 KiB a second; a resilver would never end";
            return Err(Fault::at(rate.span(), message));
        }
        Some(rate) => rate.into_inner().0,
    };
    let rated_write_bytes = ssd.written_tb.map(rated_bytes).transpose()?;
    let (mirror, uuid) = (ssd.mirror.map(Spanned::into_inner), ssd.uuid.map(parse).transpose()?);
    Ok(SsdConfig { path: ssd.path, mirror, timeout, resilver_rate_bytes, rated_write_bytes, uuid })
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
pub(super) fn check_no_pair(ssd: RawSsd) -> Result<RawSsd, Fault> {
    if let Some(rated) = &ssd.written_tb {
        return Err(Fault::at(
            rated.span(),
            "Key 'written_tb' is of [ssd]: what is written to a read SSD is not shown beside a rating",
        ));
    }
    let mirror = ssd.mirror.as_ref().map(Spanned::span);
    let of_pair =
        mirror.or(ssd.timeout.as_ref().map(Spanned::span)).or(ssd.resilver_rate.as_ref().map(Spanned::span));
    match of_pair {
        Some(span) => {
            let message =
                "Keys 'mirror', 'timeout' and 'resilver_rate' are of [ssd]: nothing is only on a read SSD";
            Err(Fault::at(span, message))
        }
        None => Ok(ssd),
    }
}
