//! What schemes need of a run, and what they have no use for: asked before anything starts. It must not know how schemes
//! are built.

use lode_types::{Level, OriginFields};

use crate::quota::Quota;
use crate::registry::SchemeInfo;
use crate::settings::{SettingError, Settings};

/// What a scheme decides by that lies in how blocks are beside each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Adjacency {
    /// The setting that asks for it.
    pub(crate) key: &'static str,
    /// The setting's value with which it does not.
    pub(crate) off: &'static str,
    /// What it is.
    pub(crate) what: &'static str,
}

/// What a scheme decides by that passes in time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timed {
    /// The number that asks for it, where it is not 0.
    pub(crate) key: &'static str,
    /// What it is.
    pub(crate) what: &'static str,
}

/// Where a run's requests come from: what there is to do when they tell too little depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestSource {
    /// A recorded or synthetic trace.
    Trace,
    /// Guests, as they ask.
    Guest,
}

impl SchemeInfo {
    /// Refuses a scheme that decides by what comes next, for those who cannot know it: everything that serves guests as
    /// they come, and everything that looks at a trace once.
    ///
    /// # Errors
    /// [`SettingError::NeedsFuture`].
    pub fn check_without_future(&self) -> Result<(), SettingError> {
        if self.needs_future() { Err(SettingError::NeedsFuture { scheme: self.name }) } else { Ok(()) }
    }

    /// Refuses settings under which the scheme goes by what other VMs ask, for those who see one VM by itself.
    ///
    /// # Errors
    /// [`SettingError::Origins`].
    pub fn check_alone(&self, settings: &Settings) -> Result<(), SettingError> {
        (self.alone)(settings)
    }

    /// Refuses settings under which the scheme decides by who asks, where requests of `source` tell only what `told` names. A
    /// guest tells nothing of other VMs.
    ///
    /// # Errors
    /// [`SettingError::Origins`].
    pub fn check_origins(
        &self,
        settings: &Settings,
        told: OriginFields,
        source: RequestSource,
    ) -> Result<(), SettingError> {
        if source == RequestSource::Guest {
            self.check_alone(settings)?;
        }
        (self.origins)(settings, told, source)
    }

    /// Refuses settings under which the scheme decides by what a sample of the blocks does not have, as no block in it has its
    /// neighbours.
    ///
    /// # Errors
    /// [`SettingError::NotInSample`].
    pub fn check_sample(&self, settings: &Settings) -> Result<(), SettingError> {
        match self.adjacency {
            Some(Adjacency { key, off, what }) if settings.text(key) != off => {
                Err(SettingError::NotInSample { scheme: self.name, what, key, without: off })
            }
            _ => Ok(()),
        }
    }

    /// Refuses settings under which the scheme looks for something on a disk of `disk_blocks` blocks that lies beyond its end.
    ///
    /// # Errors
    /// [`SettingError::BeyondDisk`].
    pub fn check_disk(&self, settings: &Settings, disk_blocks: u64) -> Result<(), SettingError> {
        (self.disk)(settings, disk_blocks)
    }

    /// Refuses settings that count what is done in a time, for requests that have none.
    ///
    /// # Errors
    /// [`SettingError::NeedsTimes`].
    pub fn check_without_times(&self, settings: &Settings) -> Result<(), SettingError> {
        let needs_times = |key, what, instead| {
            Err(SettingError::NeedsTimes { key, value: settings.text(key).to_owned(), what, instead })
        };
        if let Some(key) = settings.daily_budget() {
            let instead = format!("blocks for each hundred block accesses, such as {key}=10");
            return needs_times(key, "what is written in a day", instead);
        }
        match self.timed {
            Some(Timed { key, what }) if settings.number(key) > 0.0 => needs_times(key, what, "0".to_owned()),
            _ => Ok(()),
        }
    }

    /// Fewest blocks of a level with which the scheme can work.
    pub fn least_blocks(&self, level: Level) -> u32 {
        self.least.of(level)
    }

    /// Refuses a run that lacks a level without which the scheme cannot work, or has too little of it.
    ///
    /// # Errors
    /// [`SettingError::Levels`].
    pub fn check_needs(&self, physical: Quota) -> Result<(), SettingError> {
        let lacks = |level: &Level| physical.of(*level) < self.least_blocks(*level);
        let Some(level) = Level::ALL.into_iter().find(lacks) else { return Ok(()) };
        let (scheme, name) = (self.name, level.name());
        Err(SettingError::Levels(match physical.of(level) {
            0 => format!("Scheme '{scheme}' needs the {name} level; give it --{name} SIZE"),
            _ => format!(
                "Scheme '{scheme}' needs {} blocks or more of the {name} level; give it a larger --{name}",
                self.least_blocks(level)
            ),
        }))
    }

    /// Refuses levels that the scheme would not use, so that nobody pays for space without an effect.
    ///
    /// # Errors
    /// [`SettingError::Levels`].
    pub fn check_levels(&self, physical: Quota) -> Result<(), SettingError> {
        let is_unused = |level: &Level| physical.of(*level) > 0 && !self.levels.contains(level);
        let Some(level) = Level::ALL.into_iter().find(is_unused) else { return Ok(()) };
        let (scheme, name) = (self.name, level.name());
        let message = format!("Scheme '{scheme}' does not use the {name} level; leave its size out");
        Err(SettingError::Levels(message))
    }
}
