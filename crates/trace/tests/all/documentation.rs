//! docs/traces.md has every format, with its endings and its default unit.

use lode_trace::formats;

const PAGE: &str = include_str!("../../../../docs/traces.md");

/// The words in backquotes of a cell.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// The cells of the rows below the table's title line that starts with `title`.
fn rows(title: &str) -> Vec<Vec<&'static str>> {
    let lines = PAGE.lines().skip_while(|line| !line.starts_with(title)).skip(2);
    let rows = lines.take_while(|line| line.starts_with('|'));
    // An escaped bar does not end a cell, but only names and endings are looked at: the first and the last cells.
    rows.map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}

#[test]
fn the_table_of_formats_is_complete() {
    let mut stated: Vec<_> = rows("| name |")
        .into_iter()
        .map(|cells| {
            let ending_cell = if cells.len() == 6 { cells[5] } else { "" };
            (quoted(cells[0])[0], quoted(ending_cell))
        })
        .collect();
    // The page speaks of every build.
    stated.retain(|(name, _)| *name != "parquet" || cfg!(feature = "parquet"));
    let mut known: Vec<_> = formats().map(|format| (format.name, format.endings.to_vec())).collect();
    stated.sort_unstable();
    known.sort_unstable();
    assert_eq!(stated, known);
}

#[test]
fn the_default_units_are_stated() {
    let stated: Vec<_> = rows("| format | default |")
        .into_iter()
        .flat_map(|cells| quoted(cells[0]).into_iter().map(move |name| (name, cells[1])).collect::<Vec<_>>())
        .collect();
    for format in formats() {
        let shown = format.default_unit_bytes.map(|unit| if unit == 512 { "512 B" } else { "4 KiB" });
        let found = stated.iter().find(|(name, _)| *name == format.name).map(|(_, unit)| *unit);
        assert_eq!(found, shown, "{}", format.name);
    }
}
