//! Watching a running daemon: what it does from one answer to the next. It must not know where the answers are shown.

pub mod rates;
pub mod view;
mod wear;

use std::path::PathBuf;
use std::time::Instant;

use self::rates::{Rates, Snapshot, host_wear, is_same_run, rates};
use crate::commands::event_text;
use crate::error::CliError;

/// What a daemon did between two answers.
pub struct Look {
    /// A line on the daemon, and what the rates are of.
    pub title: String,
    /// A line on what the cache SSD takes, where there is something that it could exceed.
    pub wear: Option<String>,
    pub rates: Vec<Rates>,
}

/// Asks a daemon again and again.
pub struct Watch {
    control: PathBuf,
    before: Option<(Snapshot, Instant)>,
    /// Number of the latest event that was told, and when its daemon began to number them.
    told: Option<(u64, u64)>,
}

impl Watch {
    pub fn new(control: PathBuf) -> Watch {
        Watch { control, before: None, told: None }
    }

    /// The latest events, as lines.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn events(&self, most: usize) -> Result<Vec<String>, CliError> {
        let found = lode_server::events(&self.control, None, None, most)?;
        Ok(found.events.iter().map(event_text).collect())
    }

    /// The events since this was asked last, as lines; at first there are none.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn new_events(&mut self, most: usize) -> Result<Vec<String>, CliError> {
        let after = self.told.map(|(number, _)| number);
        let mut found = lode_server::events(&self.control, after, None, most)?;
        // A daemon that was started again counts anew.
        if self.told.is_some_and(|(_, began_ms)| found.began_ms != began_ms) {
            found = lode_server::events(&self.control, Some(0), None, most)?;
        }
        let is_first = self.told.is_none();
        let number = match found.events.last() {
            Some(event) if !is_first => event["number"].as_u64().unwrap_or(found.last),
            _ => found.last,
        };
        self.told = Some((number, found.began_ms));
        if is_first {
            return Ok(Vec::new());
        }
        Ok(found.events.iter().map(event_text).collect())
    }

    /// What it did since the last time, or since its start.
    ///
    /// # Errors
    /// When it does not answer, or is of another version.
    pub fn next(&mut self) -> Result<Look, CliError> {
        let answer = lode_server::status(&self.control)?;
        let at = Instant::now();
        let now: Snapshot = serde_json::from_str(&answer).map_err(|error| {
            CliError::Failure(format!(
                "The daemon's answer is not understood: {error}; is it of another version?"
            ))
        })?;
        let before = self.before.replace((now.clone(), at));
        let before = before.map(|(before, asked)| (before, (at - asked).as_secs_f64()));
        let before = before.filter(|(before, seconds)| is_same_run(before, *seconds, &now));
        let of = match &before {
            Some((_, seconds)) => format!("rates of the last {seconds:.1} s"),
            None => "rates since the start".to_owned(),
        };
        let rates = rates(before.as_ref().map(|(before, seconds)| (before, *seconds)), &now);
        let wear = host_wear(&rates, &now);
        Ok(Look {
            title: format!("Cache {}, up {} s, {of}", now.name, now.uptime_s),
            wear: wear.has_limit().then(|| format!("SSD wear {}", wear.text())),
            rates,
        })
    }
}
