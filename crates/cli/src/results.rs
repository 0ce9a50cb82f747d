//! Where results go beside or in place of the text: JSON, CSV, pages and pictures, by options that are the same everywhere.
//! It must not know what is in them.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::Args;
use lode_plan::{Made, PlanError};
use serde::Serialize;

use crate::error::CliError;
use crate::heading::made;
use crate::output::{self, json_text};
use crate::pixels;
use crate::target::{is_standard_output, write_result};

/// The result as JSON.
#[derive(Args)]
pub struct JsonArgs {
    /// Write JSON to standard output in place of the text, or with =FILE to that file beside it.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    json: Option<PathBuf>,
}

impl JsonArgs {
    /// What was asked for, by option.
    pub fn outputs(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        self.json.iter().map(|path| ("--json", path.as_path()))
    }

    /// Writes the JSON, and the text unless something else has its place.
    ///
    /// # Errors
    /// When standard output takes no more, or the file cannot be written.
    pub fn write(&self, value: &impl Serialize, text: impl FnOnce() -> String) -> Result<(), CliError> {
        // What can be shown is shown even where the file fails, and the other way round.
        let shown = if self.outputs().any(is_to_standard_output) { Ok(()) } else { output::write(&text()) };
        self.write_file(value).and(shown)
    }

    /// Writes the JSON alone.
    ///
    /// # Errors
    /// As [`JsonArgs::write`].
    pub fn write_file(&self, value: &impl Serialize) -> Result<(), CliError> {
        self.json.as_deref().map_or(Ok(()), |path| write_result(path, &json_text(value)?))
    }
}

/// The result as JSON and its table as CSV.
#[derive(Args)]
pub struct TableArgs {
    #[command(flatten)]
    json: JsonArgs,

    /// Write CSV to standard output in place of the text, or with =FILE to that file beside it.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    csv: Option<PathBuf>,
}

impl TableArgs {
    /// What was asked for, by option.
    pub fn outputs(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        self.json.outputs().chain(self.csv.iter().map(|path| ("--csv", path.as_path())))
    }

    /// Writes what was asked for.
    ///
    /// # Errors
    /// When standard output takes no more, or a file cannot be written.
    pub fn write(&self, value: &impl Serialize, rows: impl FnOnce() -> Rows) -> Result<(), CliError> {
        let csv = || self.csv.as_deref().map_or(Ok(()), |path| write_result(path, &csv_text(rows())));
        let json = self.json.write_file(value);
        csv().and(json)
    }
}

/// Where results are drawn.
#[derive(Args)]
pub struct PictureArgs {
    /// Also write a page that shows the results in a browser, without a network, to this file; - is standard output, in place
    /// of the text.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Also write a picture, for a paper, to this file; - is standard output, in place of the text.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// Also write that picture as PNG, of 300 dots an inch and in a font of this computer, to this file; - is standard output, in
    /// place of the text.
    #[arg(long, value_name = "FILE")]
    png: Option<PathBuf>,
}

impl PictureArgs {
    /// Whether there is to be a page.
    pub fn has_page(&self) -> bool {
        self.html.is_some()
    }

    /// What was asked for, by option.
    pub fn outputs(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let all = [("--html", &self.html), ("--svg", &self.svg), ("--png", &self.png)];
        all.into_iter().filter_map(|(option, path)| Some((option, path.as_deref()?)))
    }

    /// That what was asked for can be drawn here, before anything is read.
    ///
    /// # Errors
    /// When there is no font for a PNG, or it would go to a terminal.
    pub fn check(&self) -> Result<(), CliError> {
        let Some(path) = &self.png else { return Ok(()) };
        if is_standard_output(path) && std::io::stdout().is_terminal() {
            return Err(CliError::Usage("--png - would spoil the terminal; name a file".to_owned()));
        }
        pixels::check()
    }

    /// Draws what was asked for.
    ///
    /// # Errors
    /// When it cannot be drawn or written.
    pub fn write<T>(
        &self,
        report: &T,
        page: fn(&T, &Made) -> Result<String, PlanError>,
        picture: fn(&T) -> Result<String, PlanError>,
    ) -> Result<(), CliError> {
        if let Some(path) = &self.html {
            write_result(path, &page(report, &made())?)?;
        }
        if self.svg.is_none() && self.png.is_none() {
            return Ok(());
        }
        let svg = picture(report)?;
        self.svg.as_deref().map_or(Ok(()), |path| write_result(path, &svg))?;
        self.png.as_deref().map_or(Ok(()), |path| write_result(path, &pixels::png(&svg)?))
    }
}

/// Whether one of these outputs has the place of the text.
pub fn is_to_standard_output((_, path): (&str, &Path)) -> bool {
    is_standard_output(path)
}

/// A column of a table for programs: its title, and what a row has there.
pub type Column<T> = (&'static str, fn(&T) -> String);

/// So many of them.
pub type Columns<T, const N: usize> = [Column<T>; N];

/// A table for programs.
pub struct Rows {
    titles: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Rows {
    /// A row for each of `items`. Where there are none, there are titles all the same.
    pub fn of<T>(columns: &[Column<T>], items: impl IntoIterator<Item = T>) -> Rows {
        let row = |item: T| columns.iter().map(|(_, value)| value(&item)).collect();
        Rows {
            titles: columns.iter().map(|(title, _)| *title).collect(),
            rows: items.into_iter().map(row).collect(),
        }
    }
}

/// A value of such a row; nothing where there is none.
pub fn cell(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// Comma-separated values by RFC 4180, but for the line ends, with a title line.
fn csv_text(table: Rows) -> String {
    let line = |row: Vec<String>| row.into_iter().map(quoted).collect::<Vec<_>>().join(",") + "\n";
    table.titles.join(",") + "\n" + &table.rows.into_iter().map(line).collect::<String>()
}

fn quoted(value: String) -> String {
    if value.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", value.replace('"', "\"\"")) } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_quoted_where_they_must_be() {
        type Item = (&'static str, Option<f64>);
        let columns: Columns<Item, 2> = [("name", |item| item.0.to_owned()), ("share", |item| cell(item.1))];
        let items = [("plain", Some(0.5)), ("a,\"b\"", None), ("two\nlines", Some(1.0))];
        assert_eq!(
            csv_text(Rows::of(&columns, items)),
            "name,share\nplain,0.5\n\"a,\"\"b\"\"\",\n\"two\nlines\",1\n"
        );
        // What reads it finds its columns even so.
        assert_eq!(csv_text(Rows::of(&columns, [])), "name,share\n");
    }
}
