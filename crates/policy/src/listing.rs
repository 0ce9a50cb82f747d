//! The schemes and their settings as lists for users, whose names are stable. It must not know how any scheme decides.

use lode_types::Level;
use serde::Serialize;

use crate::registry::SchemeInfo;
use crate::settings::SettingInfo;

/// What `lode schemes` says of a scheme.
#[derive(Clone, Debug, Serialize)]
pub struct SchemeEntry {
    /// The name users give.
    pub name: &'static str,
    /// One sentence.
    pub about: &'static str,
    /// The paper or practice it follows.
    pub source: &'static str,
    /// Names of the levels it uses.
    pub levels: Vec<&'static str>,
    /// It decides by what comes next.
    pub needs_future: bool,
    /// What can be set.
    pub settings: Vec<SettingEntry>,
}

/// What it says of a setting.
#[derive(Clone, Debug, Serialize)]
pub struct SettingEntry {
    /// Its name.
    pub key: &'static str,
    /// What it is when nothing is said.
    pub default: &'static str,
    /// What it can be, in words.
    pub values: String,
    /// What it does.
    pub about: &'static str,
    /// Where the default comes from.
    pub source: &'static str,
    /// It only reproduces another reading of the scheme's source.
    pub reproduction_only: bool,
}

impl SchemeEntry {
    /// The entry of a scheme.
    pub fn of(info: &SchemeInfo) -> SchemeEntry {
        SchemeEntry {
            name: info.name,
            about: info.about,
            source: info.source,
            levels: info.levels.iter().copied().map(Level::name).collect(),
            needs_future: info.needs_future(),
            settings: info.setting_infos().map(|setting| SettingEntry::of(info, setting)).collect(),
        }
    }
}

impl SettingEntry {
    fn of(scheme: &SchemeInfo, setting: &SettingInfo) -> SettingEntry {
        SettingEntry {
            key: setting.key,
            default: setting.default,
            values: setting.kind.to_string(),
            about: setting.about,
            source: setting.source,
            reproduction_only: scheme.is_variant(setting.key),
        }
    }
}
