//! Pictures and self-contained pages out of plain data: curves, bars, tables, sliders.
//!
//! Numbers go in, SVG and HTML come out, always the same for the same numbers. This crate must not know caches,
//! traces, policies or devices, and does no I/O: whoever calls it decides what a number means and where a page goes.
//!
//! [`LineChart`] and [`BarChart`] draw themselves as SVG, for a paper or a screen ([`Style`]). [`Page`] puts the
//! same charts beside text, tables and sliders into one HTML file that needs no network. Names may come from anywhere: they are
//! escaped, and characters that could mislead a reader are replaced.

#![forbid(unsafe_code)]

mod axis;
mod bars;
mod error;
mod line;
mod page;
mod states;
mod style;
mod svg;
mod text;
mod unit;

pub use axis::{Axis, Scale};
pub use bars::{Arrangement, BarChart, BarPart, Panel};
pub use error::{DrawError, DrawErrorKind};
pub use line::{LineChart, Markers, Series, Shape, Tint};
pub use page::{
    Cells, Choice, Column, Factor, Figure, FigureValue, Item, NumberField, Page, Section, Select, Slider,
    Table,
};
pub use states::States;
pub use style::{COLOURS, Style};
pub use unit::Unit;

/// Limits of what is drawn. Beyond them there is an error and no picture.
pub mod limits {
    /// Curves of one chart.
    pub const MAX_SERIES: usize = 4096;
    /// Points of one curve.
    pub const MAX_POINTS: usize = 1 << 20;
    /// Rows of one bar chart or table.
    pub const MAX_ROWS: usize = 4096;
    /// Panels of one bar chart, parts of one panel, columns of one table, charts beside each other.
    pub const MAX_COLUMNS: usize = 64;
    /// Sliders, and number fields, of one page.
    pub const MAX_CONTROLS: usize = 8;
    /// Positions of one slider.
    pub const MAX_POSITIONS: usize = 1024;
    /// States of one value: all combinations of positions of the sliders it follows.
    pub const MAX_STATES: usize = 1 << 16;
    /// The largest number, either sign.
    pub const MAX_NUMBER: f64 = 1e30;
    /// What is nearer to zero is drawn as zero.
    pub const MIN_NUMBER: f64 = 1e-30;
    /// Characters of one name that are shown; of longer ones the end is left out, and an ellipsis says so.
    pub const MAX_NAME_CHARS: usize = 200;
    /// Characters of one paragraph or sentence that are shown.
    pub const MAX_TEXT_CHARS: usize = 4000;
}
