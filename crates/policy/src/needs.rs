//! What schemes need of a run, and what they have no use for: asked before anything starts. It must not know how schemes
//! are built.

use lode_types::{Level, OriginFields};

use crate::quota::Quota;
use crate::registry::{AnyScheme, SchemeInfo};
use crate::schemes::write_cache;
use crate::settings::{SettingError, Settings};

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
        if self.needs_future { Err(SettingError::NeedsFuture { scheme: self.name }) } else { Ok(()) }
    }

    /// Refuses settings under which the scheme decides by who asks, where requests of `source` tell only what `told` names.
    ///
    /// # Errors
    /// [`SettingError::Origins`].
    pub fn check_origins(
        &self,
        settings: &Settings,
        told: OriginFields,
        source: RequestSource,
    ) -> Result<(), SettingError> {
        if self.name == write_cache::NAME { write_cache::check(settings, told, source) } else { Ok(()) }
    }

    /// Of what there is, the levels that the scheme uses.
    pub fn part_of(&self, physical: Quota) -> Quota {
        physical.map(|level, blocks| if self.levels.contains(&level) { blocks } else { 0 })
    }

    /// The levels without which the scheme cannot work. A scheme with a read SSD keeps every dirty block on two devices,
    /// and has none to spare.
    pub fn needed_levels(&self) -> &'static [Level] {
        if self.levels.contains(&Level::ReadSsd) { self.levels } else { &[] }
    }

    /// Refuses a run that lacks a level without which the scheme cannot work.
    ///
    /// # Errors
    /// [`SettingError::Levels`].
    pub fn check_needs(&self, physical: Quota) -> Result<(), SettingError> {
        match self.needed_levels().iter().find(|&&level| physical.of(level) == 0) {
            Some(level) => Err(SettingError::Levels(format!(
                "Scheme '{}' needs the {level} level; give it --{level} SIZE",
                self.name,
                level = level.name()
            ))),
            None => Ok(()),
        }
    }

    /// Refuses levels that the scheme would not use, so that nobody pays for space without an effect.
    ///
    /// # Errors
    /// [`SettingError::Levels`].
    pub fn check_levels(&self, physical: Quota) -> Result<(), SettingError> {
        for level in Level::ALL {
            if physical.of(level) > 0 && !self.levels.contains(&level) {
                return Err(SettingError::Levels(format!(
                    "Scheme '{}' does not use the {} level; leave its size away",
                    self.name,
                    level.name()
                )));
            }
        }
        Ok(())
    }
}

impl AnyScheme {
    /// The scheme if it issues writes again that are on their way to the disk: then it needs a caller that calls its hooks.
    pub fn reissuing(&mut self) -> Option<&mut write_cache::WriteCache> {
        match self {
            AnyScheme::RequestOriented(cache) if cache.reissues() => Some(cache),
            _ => None,
        }
    }
}
