//! `lode schemes`: what can be replayed and served, and what can be set.

use clap::Args;
use lode_policy::{SchemeInfo, SettingInfo, all_schemes};
use lode_types::Level;
use serde::Serialize;

use crate::error::CliError;
use crate::output;

/// List the caching schemes and their settings
#[derive(Args)]
#[command(after_help = "Example: lode schemes --json | jq '.[].name'")]
pub struct SchemesCommand {
    /// Write JSON instead of text.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct SchemeEntry {
    name: &'static str,
    about: &'static str,
    source: &'static str,
    levels: Vec<&'static str>,
    settings: Vec<SettingEntry>,
}

#[derive(Serialize)]
struct SettingEntry {
    key: &'static str,
    default: &'static str,
    values: String,
    about: &'static str,
    source: &'static str,
}

impl SchemesCommand {
    /// Lists every scheme of the registry.
    pub fn run(&self) -> Result<(), CliError> {
        let schemes: Vec<_> = all_schemes().iter().map(scheme_entry).collect();
        if self.json {
            return output::write_json(&schemes);
        }
        let texts: Vec<_> = schemes.iter().map(scheme_text).collect();
        output::write(&texts.join("\n"))
    }
}

fn scheme_entry(info: &SchemeInfo) -> SchemeEntry {
    SchemeEntry {
        name: info.name,
        about: info.about,
        source: info.source,
        levels: info.levels.iter().copied().map(Level::name).collect(),
        settings: info.setting_infos().map(setting_entry).collect(),
    }
}

fn setting_entry(info: &SettingInfo) -> SettingEntry {
    SettingEntry {
        key: info.key,
        default: info.default,
        values: info.kind.to_string(),
        about: info.about,
        source: info.source,
    }
}

fn scheme_text(scheme: &SchemeEntry) -> String {
    let SchemeEntry { name, about, source, levels, settings } = scheme;
    let mut table = output::table(&["setting", "default", "values", "what it does"], 4);
    for setting in settings {
        table.add_row([setting.key, setting.default, &setting.values, setting.about]);
    }
    format!("{name} ({}): {about}.\nSource: {source}.\n{table}\n", levels.join(" and "))
}
