//! Which column of a table is which field of requests, and its unit: the names of the Parquet format, in any case. It must not
//! know what is in the columns.

use std::collections::HashMap;

use arrow_schema::Schema;
use lode_types::SECTOR_BYTES;

/// What is expected, for messages.
pub const EXPECTED: &str = "time_ns (whole ns, or time_us, time_ms, time_s, or a timestamp called time), offset_bytes and \
                            length_bytes (whole bytes, or offset_sectors and length_sectors of 512); and perhaps op (text: read, \
                            write, trim, flush, or R, W, T, F; without, all are reads), volume (text or whole number; without, \
                            one), process (whole), sync and critical (true or false)";

/// Fields of requests, each with the names that its column may have, and what a number of it counts.
const FIELDS: [(&str, &[(&str, u64)]); 8] = [
    (
        "time_ns",
        &[
            ("time_ns", 1),
            ("time_us", 1000),
            ("time_ms", 1_000_000),
            ("time_s", 1_000_000_000),
            ("time", 0),
            ("timestamp", 0),
        ],
    ),
    (
        "offset_bytes",
        &[
            ("offset_bytes", 1),
            ("offset", 1),
            ("offset_sectors", SECTOR_BYTES),
            ("lba", SECTOR_BYTES),
            ("lbn", SECTOR_BYTES),
            ("sector", SECTOR_BYTES),
        ],
    ),
    (
        "length_bytes",
        &[
            ("length_bytes", 1),
            ("length", 1),
            ("size_bytes", 1),
            ("size", 1),
            ("length_sectors", SECTOR_BYTES),
            ("size_sectors", SECTOR_BYTES),
            ("sectors", SECTOR_BYTES),
        ],
    ),
    ("op", &[("op", 1), ("operation", 1), ("type", 1)]),
    ("volume", &[("volume", 1), ("device", 1), ("disk", 1), ("vm", 1)]),
    ("process", &[("process", 1)]),
    ("sync", &[("sync", 1)]),
    ("critical", &[("critical", 1)]),
];
const NEEDED: usize = 3;

/// A column, and what a number of it counts: nanoseconds or bytes; 0 says that its type tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Place in the table.
    pub index: usize,
    /// What a number counts.
    pub unit: u64,
}

/// Columns of a table, in the order of [`FIELDS`].
#[derive(Clone, Debug)]
pub struct Columns {
    /// When.
    pub time: Column,
    /// First byte.
    pub offset: Column,
    /// Bytes.
    pub length: Column,
    /// What is asked.
    pub op: Option<Column>,
    /// Of which volume.
    pub volume: Option<Column>,
    /// Who asks.
    pub process: Option<Column>,
    /// Whether they wait.
    pub sync: Option<Column>,
    /// Whether they are critical.
    pub critical: Option<Column>,
}

/// The fields, each with the names that its column may have, and what a number of it counts (0: a timestamp).
pub fn fields() -> Vec<(&'static str, Vec<(&'static str, u64)>)> {
    FIELDS.iter().map(|(field, names)| (*field, names.to_vec())).collect()
}

impl Columns {
    /// Finds them; `named` says for some of the names how the table calls them.
    ///
    /// # Errors
    /// Which is missing, what there is that comes nearest, and what is expected.
    pub fn find(schema: &Schema, named: &HashMap<String, String>) -> Result<Columns, String> {
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        if let Some(unknown) = named.keys().find(|name| !all_names().any(|known| known == name.as_str())) {
            let near = nearest(unknown, all_names())
                .map_or(String::new(), |near| format!("; did you mean '{near}'?"));
            return Err(format!(
                "columns= has '{unknown}', which is no field of a request{near} Expected: {EXPECTED}"
            ));
        }
        let found = |field: usize| -> Result<Option<Column>, String> {
            let known = FIELDS[field].1;
            for (name, unit) in known {
                if let Some(theirs) = named.get(*name) {
                    let index = names.iter().position(|name| name == theirs);
                    return match index {
                        Some(index) => Ok(Some(Column { index, unit: *unit })),
                        None => Err(missing(theirs, &names)),
                    };
                }
            }
            Ok(known.iter().find_map(|(name, unit)| {
                let index = names.iter().position(|theirs| theirs.eq_ignore_ascii_case(name))?;
                Some(Column { index, unit: *unit })
            }))
        };
        let needed = |field: usize| found(field)?.ok_or_else(|| missing(FIELDS[field].0, &names));
        debug_assert_eq!(FIELDS[NEEDED].0, "op");
        Ok(Columns {
            time: needed(0)?,
            offset: needed(1)?,
            length: needed(2)?,
            op: found(3)?,
            volume: found(4)?,
            process: found(5)?,
            sync: found(6)?,
            critical: found(7)?,
        })
    }
}

fn all_names() -> impl Iterator<Item = &'static str> {
    FIELDS.iter().flat_map(|(_, names)| names.iter().map(|(name, _)| *name))
}

fn missing(wanted: &str, names: &[&str]) -> String {
    let there = if names.is_empty() { "no column at all".to_owned() } else { names.join(", ") };
    let near = nearest(wanted, names.iter().copied())
        .map(|near| format!(" The nearest is '{near}': rename it, or give columns={{'{wanted}': '{near}'}}."))
        .unwrap_or_default();
    format!("No column '{wanted}' among {there}.{near} Expected: {EXPECTED}")
}

/// The name that takes fewest changes of letters, if it takes at most half of them.
fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = wanted.to_ascii_lowercase();
    let scored = names.map(|name| (changes(&wanted, &name.to_ascii_lowercase()), name));
    let (count, name) = scored.min_by_key(|(count, _)| *count)?;
    (2 * count <= wanted.len().max(name.len())).then_some(name)
}

/// Letters to insert, remove or replace (Levenshtein's distance).
fn changes(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.chars().enumerate() {
        let mut corner = row[0];
        row[0] = at + 1;
        for (to, theirs) in other.iter().enumerate() {
            let replaced = corner + usize::from(letter != *theirs);
            corner = row[to + 1];
            row[to + 1] = replaced.min(row[to] + 1).min(corner + 1);
        }
    }
    row[other.len()]
}
