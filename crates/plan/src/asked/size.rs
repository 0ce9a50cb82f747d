//! What a division is asked for: schemes, money, rules for VMs. It must not know how levels are divided.

use std::collections::HashSet;

use lode_policy::{SchemeInfo, Settings};
use lode_replay::ReplayError;
use lode_types::{Level, parse_size, show_size};

use crate::division::VmRule;
use crate::error::PlanError;
use crate::front::MAX_BUDGET_USD;
use crate::recommend::Wish;
use crate::two_levels::TwoLevels;

/// Shares that a daemon serves are in whole numbers of these.
pub const SHARE_GRANULE_BYTES: u64 = 64 << 10;

/// How much a VM can count, which is 1 unless said otherwise. Beyond, sums of what VMs gain lose those that count little,
/// and products with their hits or latencies leave the numbers that there are.
const MIN_WEIGHT: f64 = 1e-6;
const MAX_WEIGHT: f64 = 1e6;

/// A scheme with settings, as users write it: `NAME:KEY=VALUE:KEY=VALUE`; and the same as a label.
///
/// # Errors
/// When there is no such scheme or setting.
pub fn parse_scheme(text: &str) -> Result<(String, Settings), PlanError> {
    let mut parts = text.split(':');
    let mut settings =
        SchemeInfo::find(parts.next().unwrap_or_default()).map_err(ReplayError::from)?.settings();
    parts.try_for_each(|pair| settings.set_pair(pair)).map_err(ReplayError::from)?;
    Ok((text.to_owned(), settings))
}

/// Money in US dollars: `500usd`, `500`, `1200.50usd`.
///
/// # Errors
/// What to write instead.
pub fn parse_money(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix("usd").unwrap_or(text).trim();
    match number.parse::<f64>() {
        Ok(usd) if usd.is_finite() && usd > MAX_BUDGET_USD => {
            Err(format!("Amounts are up to {MAX_BUDGET_USD:e} usd; write less, such as 500usd"))
        }
        Ok(usd) if usd.is_finite() && usd > 0.0 => Ok(usd),
        Ok(usd) if usd <= 0.0 => {
            Err("Amounts are positive; write one above 0 in US dollars, such as 500usd".to_owned())
        }
        _ => Err("Write an amount above 0 in US dollars, such as 500usd".to_owned()),
    }
}

/// `best`, a scheme that serves both levels of a plan, or one with one SSD level.
///
/// # Errors
/// When there is no such scheme or setting, or it cannot be planned for.
pub fn parse_wish(text: &str) -> Result<Wish, PlanError> {
    if text == "best" {
        return Ok(Wish::Best);
    }
    if let Some(wish) = TwoLevels::wish_for(text) {
        return Ok(wish);
    }
    let (_, settings) = parse_scheme(text)?;
    let info = SchemeInfo::find(settings.scheme()).map_err(ReplayError::from)?;
    if info.levels != [Level::Ssd] || info.needs_future() {
        return Err(PlanError::Request(format!(
            "Scheme {text}: a plan is for {} without settings, or for a scheme that has one SSD level and can be served; \
             a comparison by a plan shows others for its money",
            TwoLevels::names()
        )));
    }
    // The plan gives the shares, and no sets, unless they are asked for.
    let settings = settings.without_sizing();
    Ok(Wish::OneLevel(if text.contains(":assoc=") { settings } else { settings.without_sets() }))
}

/// What one VM may have: `NAME:KEY=VALUE,...`.
///
/// # Errors
/// What to write instead.
pub fn parse_rule(text: &str) -> Result<VmRule, String> {
    const KEYS: &str = "weight, min-dram, max-dram, min-ssd, max-ssd";
    // Names may have colons, keys and values have none.
    let (name, settings) = text.rsplit_once(':').ok_or("Write NAME:KEY=VALUE, such as db1:weight=2")?;
    if name.is_empty() {
        return Err("Write the VM's name before the colon, such as db1:weight=2, or * for all".to_owned());
    }
    let mut given = HashSet::new();
    let mut rule =
        VmRule { name: name.to_owned(), weight: None, dram_bytes: (None, None), ssd_bytes: (None, None) };
    for setting in settings.split(',') {
        let (key, value) = setting.split_once('=').ok_or_else(|| format!("'{setting}' is not KEY=VALUE"))?;
        if !given.insert(key) {
            return Err(format!("'{key}' is given twice; once is enough"));
        }
        let size = || parse_size(value).map(Some).map_err(|error| error.to_string());
        match key {
            "weight" => match value.parse::<f64>() {
                Ok(weight) if (MIN_WEIGHT..=MAX_WEIGHT).contains(&weight) => rule.weight = Some(weight),
                _ => {
                    return Err(format!(
                        "A weight is a number from {MIN_WEIGHT} to {MAX_WEIGHT}, and this is '{value}'"
                    ));
                }
            },
            "min-dram" => rule.dram_bytes.0 = size()?,
            "max-dram" => rule.dram_bytes.1 = size()?,
            "min-ssd" => rule.ssd_bytes.0 = size()?,
            "max-ssd" => rule.ssd_bytes.1 = size()?,
            _ => return Err(format!("There is no '{key}'; the keys are {KEYS}")),
        }
    }
    Ok(rule)
}

/// That what a VM is guaranteed or limited to is nothing, or a block at least.
///
/// # Errors
/// Which bound is less, and what to write instead.
pub fn check_rule(rule: &VmRule, block_bytes: u64) -> Result<(), String> {
    let bounds = [
        ("min-dram", rule.dram_bytes.0),
        ("max-dram", rule.dram_bytes.1),
        ("min-ssd", rule.ssd_bytes.0),
        ("max-ssd", rule.ssd_bytes.1),
    ];
    match bounds.into_iter().find(|(_, bytes)| bytes.is_some_and(|bytes| (1..block_bytes).contains(&bytes))) {
        Some((key, _)) => Err(format!(
            "{}: {key} is less than a block of {}; write at least that, or 0 for nothing",
            rule.name,
            show_size(block_bytes)
        )),
        None => Ok(()),
    }
}
