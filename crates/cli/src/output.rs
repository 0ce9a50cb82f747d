//! Results on standard output: tables for people, JSON for programs. It must not know what they say.

use std::io::Write;

use comfy_table::{CellAlignment, ContentArrangement, Table};
use serde::Serialize;

use crate::error::CliError;

/// Characters of a table's line when standard output is no terminal.
const WIDTH_AWAY_FROM_TERMINALS: u16 = 120;

/// Writes text as it is.
///
/// # Errors
/// When standard output takes no more.
pub fn write(text: &str) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| CliError::output(&error))
}

/// Writes one JSON value and a line end.
///
/// # Errors
/// As [`write`].
pub fn write_json(value: &impl Serialize) -> Result<(), CliError> {
    write(&json_text(value)?)
}

/// One JSON value and a line end.
///
/// # Errors
/// When the value has no JSON form.
pub fn json_text(value: &impl Serialize) -> Result<String, CliError> {
    let text = serde_json::to_string_pretty(value).map_err(|error| {
        CliError::Failure(format!("Cannot write the result as JSON: {error}; please report this"))
    })?;
    Ok(text + "\n")
}

/// Tells the user about something that is not an error.
pub fn warn(message: &str) {
    eprintln!("lode: warning: {message}");
}

/// An empty table with these column titles; the columns from `first_number` on are aligned to the right.
pub fn table(titles: &[&str], first_number: usize) -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    if !table.is_tty() {
        table.set_width(WIDTH_AWAY_FROM_TERMINALS);
    }
    table.set_header(titles.iter().copied());
    for column in table.column_iter_mut().skip(first_number) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// A share as a percentage; a dash when there is none.
pub fn percent(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{:.2}", 100.0 * share))
}

/// A number with so many decimals; a dash when there is none.
pub fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.decimals$}"))
}
