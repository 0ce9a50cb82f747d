//! Tables of a page, which the reader sorts and searches. It must not know what is in them.

use serde::Serialize;

use super::Frame;
use crate::error::{DrawError, DrawErrorKind, check_length, check_limit};
use crate::limits::{MAX_COLUMNS, MAX_ROWS};
use crate::states::{States, check_numbers};
use crate::text::{clean_name, escape};
use crate::unit::Unit;

/// What stands in a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Cells {
    /// Text.
    Text(Vec<String>),
    /// Numbers, which may follow sliders; none for an empty cell.
    Numbers(Unit, States<Vec<Option<f64>>>),
}

/// A column with its heading.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The heading.
    pub title: String,
    /// What stands below.
    pub cells: Cells,
}

/// A table. Its first column names the rows: rows whose name is that of a curve light up with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Its columns, equally long.
    pub columns: Vec<Column>,
}

/// What a page's script needs to sort and change the table.
#[derive(Serialize)]
pub(crate) struct TableData {
    kind: &'static str,
    columns: Vec<ColumnData>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ColumnData {
    Text { text: Vec<String> },
    Numbers { unit: Unit, values: States<Vec<Option<f64>>> },
}

impl Column {
    fn rows(&self) -> usize {
        match &self.cells {
            Cells::Text(cells) => cells.len(),
            Cells::Numbers(_, cells) => cells.states.first().map_or(0, Vec::len),
        }
    }

    fn check(&self, rows: usize, counts: &[usize]) -> Result<(), DrawError> {
        let place = || format!("the column '{}'", clean_name(&self.title));
        match &self.cells {
            Cells::Text(cells) => check_length(cells.len(), rows, place),
            Cells::Numbers(_, cells) => {
                cells.check(counts, place)?;
                cells.states.iter().try_for_each(|state| {
                    check_length(state.len(), rows, place)?;
                    check_numbers(state.iter().flatten(), place)
                })
            }
        }
    }

    fn show(&self, row: usize, frame: &Frame<'_>) -> String {
        match &self.cells {
            Cells::Text(cells) => clean_name(&cells[row]),
            Cells::Numbers(unit, cells) => {
                unit.show(cells.at(frame.counts, frame.positions)[row].unwrap_or(f64::NAN))
            }
        }
    }

    fn data(&self) -> ColumnData {
        match &self.cells {
            Cells::Text(cells) => {
                ColumnData::Text { text: cells.iter().map(|cell| clean_name(cell)).collect() }
            }
            Cells::Numbers(unit, values) => ColumnData::Numbers { unit: *unit, values: values.clone() },
        }
    }
}

impl Table {
    fn check(&self, counts: &[usize]) -> Result<usize, DrawError> {
        let place = || format!("the table '{}'", clean_name(&self.title));
        check_limit(self.columns.len(), MAX_COLUMNS, || format!("the columns of {}", place()))?;
        let Some(first) = self.columns.first() else {
            return Err(DrawError::new(
                DrawErrorKind::Empty,
                place(),
                "it has no columns; give at least one",
            ));
        };
        let rows = first.rows();
        check_limit(rows, MAX_ROWS, || format!("the rows of {}", place()))?;
        self.columns.iter().try_for_each(|column| column.check(rows, counts))?;
        Ok(rows)
    }

    /// The table as HTML, and what a script needs to know of it.
    pub(super) fn write(&self, id: &str, frame: &Frame<'_>) -> Result<(String, TableData), DrawError> {
        let rows = self.check(frame.counts)?;
        let mut out = format!(
            "<div class=\"card table\" data-item><div class=\"scroll\"><table><caption id=\"{id}\"><span>{}</span></caption>\n<thead><tr>",
            escape(&clean_name(&self.title))
        );
        let class =
            |column: &Column| if matches!(column.cells, Cells::Text(_)) { "" } else { " class=\"n\"" };
        for column in &self.columns {
            let title = escape(&clean_name(&column.title));
            out.push_str(&format!(
                "<th scope=\"col\"{}><button type=\"button\">{title}</button></th>",
                class(column)
            ));
        }
        out.push_str("</tr></thead>\n<tbody>\n");
        for row in 0..rows {
            out.push_str("<tr>");
            for (at, column) in self.columns.iter().enumerate() {
                let (tag, scope) = if at == 0 { ("th", " scope=\"row\"") } else { ("td", "") };
                let text = escape(&column.show(row, frame));
                out.push_str(&format!("<{tag}{scope}{}>{text}</{tag}>", class(column)));
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table></div></div>\n");
        let data = TableData { kind: "table", columns: self.columns.iter().map(Column::data).collect() };
        Ok((out, data))
    }
}
