//! Results on standard output: tables for people, JSON for programs. It must not know what they say.

use std::io::Write;

use comfy_table::{CellAlignment, ContentArrangement, Table};
use serde::Serialize;

use crate::error::CliError;

/// Characters of a table's line when standard output is no terminal.
const WIDTH_AWAY_FROM_TERMINALS: u16 = 150;

/// Characters of a table's line on a terminal that does not know its width, as serial consoles do not.
const WIDTH_OF_UNKNOWN_TERMINALS: u16 = 80;

/// Writes text, or a picture, as it is.
///
/// # Errors
/// When standard output takes no more.
pub fn write(text: &(impl AsRef<[u8]> + ?Sized)) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_ref()).and_then(|()| out.flush()).map_err(|error| CliError::output(&error))
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

/// Tells the user what is being done.
pub fn note(message: &str) {
    say(&format!("lode: {message}\n"));
}

/// Tells the user about something that is not an error.
pub fn warn(message: &str) {
    say(&format!("lode: warning: {message}\n"));
}

/// Writes text to standard error as it is. Where that takes no more, as when its disk is full or its reader has gone, there is
/// nobody to tell: results and exit code stay what they are.
pub fn say(text: &str) {
    std::io::stderr().lock().write_all(text.as_bytes()).ok();
}

/// An empty table with these column titles; the columns from `first_number` on are aligned to the right.
pub fn table(titles: &[&str], first_number: usize) -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(width(table.is_tty(), table.width()));
    table.set_header(titles.iter().copied());
    for column in table.column_iter_mut().skip(first_number) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Characters of a table's line, from what a terminal reports.
fn width(is_terminal: bool, reported: Option<u16>) -> u16 {
    match reported {
        _ if !is_terminal => WIDTH_AWAY_FROM_TERMINALS,
        None | Some(0) => WIDTH_OF_UNKNOWN_TERMINALS,
        Some(width) => width,
    }
}

/// A share as a percentage; a dash when there is none.
pub fn percent(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{:.2}", 100.0 * share))
}

/// US dollars: cents, and more decimals where cents would say nothing.
pub fn dollars(usd: f64) -> String {
    if usd > 0.0 && usd < 1.0 { format!("{usd:.4}") } else { format!("{usd:.2}") }
}

/// A number with so many decimals; a dash when there is none.
pub fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_without_columns_counts_as_80() {
        for (is_terminal, reported, expected) in
            [(true, Some(0), 80), (true, None, 80), (true, Some(33), 33), (false, None, 150)]
        {
            assert_eq!(width(is_terminal, reported), expected, "{is_terminal} {reported:?}");
        }
    }
}
