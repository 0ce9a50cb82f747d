//! `lode schemes`: what can be replayed and served, and what can be set.

use clap::Args;
use lode_policy::{SchemeEntry, SchemeInfo, all_schemes};

use crate::error::CliError;
use crate::output;
use crate::results::JsonArgs;

/// List the caching schemes and their settings, or one of them
#[derive(Args)]
#[command(after_help = "\
Examples:
  lode schemes auto
  lode schemes --json | jq '.[].name'")]
pub struct SchemesCommand {
    /// This scheme alone.
    #[arg(value_name = "NAME")]
    name: Option<String>,

    #[command(flatten)]
    json: JsonArgs,
}

/// Explains the mark in the table of settings.
const VARIANT_NOTE: &str =
    "* Only to reproduce other readings of the source; leave it at its default otherwise.\n";

/// Says who can run it.
const FUTURE_NOTE: &str =
    "It needs to know what comes next: only `lode replay` and `lode compare` can run it.\n";

impl SchemesCommand {
    /// Lists every scheme of the registry, or the one that was named.
    pub fn run(&self) -> Result<(), CliError> {
        let schemes: Vec<_> = match &self.name {
            Some(name) => vec![SchemeEntry::of(SchemeInfo::find(name)?)],
            None => all_schemes().iter().map(SchemeEntry::of).collect(),
        };
        let text = || schemes.iter().map(scheme_text).collect::<Vec<_>>().join("\n");
        self.json.write(&schemes, text)
    }
}

fn scheme_text(scheme: &SchemeEntry) -> String {
    let SchemeEntry { name, about, source, levels, needs_future, settings } = scheme;
    let mut table = output::table(&["setting", "default", "values", "what it does"], 4);
    for setting in settings {
        let mark = if setting.reproduction_only { "*" } else { "" };
        let key = format!("{}{mark}", setting.key);
        table.add_row([&key, setting.default, &setting.values, setting.about]);
    }
    let note = if settings.iter().any(|setting| setting.reproduction_only) { VARIANT_NOTE } else { "" };
    let future = if *needs_future { FUTURE_NOTE } else { "" };
    format!("{name} ({}): {about}.\n{future}Source: {source}.\n{table}\n{note}", levels.join(" and "))
}
