//! How pictures look: sizes, fonts, colours, dashes and symbols. It must not know what is drawn.

use crate::line::Tint;

/// How many curves or parts get a colour of their own.
pub const COLOURS: usize = 8;

/// Colours that people with any colour vision tell apart: the palette of Okabe and Ito ("Color Universal Design", 2008),
/// without its yellow, which vanishes on white. Neighbours differ in lightness, for prints in grey.
const PAPER: [&str; COLOURS] =
    ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#5b5b5b", "#8c6d1f"];

/// The same from the page's style sheet, which has a light and a dark set.
const SHEET: [&str; COLOURS] =
    ["var(--c0)", "var(--c1)", "var(--c2)", "var(--c3)", "var(--c4)", "var(--c5)", "var(--c6)", "var(--c7)"];

/// Strokes and gaps in units of the line's width; none for the first. Together with the symbols they tell curves apart
/// without colour.
const DASHES: [&[f64]; COLOURS] = [
    &[],
    &[6.0, 2.0],
    &[2.0, 1.5],
    &[7.0, 2.0, 1.5, 2.0],
    &[12.0, 2.5],
    &[1.0, 1.5],
    &[4.0, 4.0],
    &[9.0, 2.0, 1.5, 2.0, 1.5, 2.0],
];

/// Symbols around the origin, for a radius of 1.
const SYMBOLS: [&str; COLOURS] = [
    "M-1 0a1 1 0 1 0 2 0a1 1 0 1 0-2 0z",
    "M-.9-.9h1.8v1.8h-1.8z",
    "M0-1.3 1.3 0 0 1.3-1.3 0z",
    "M0-1.2 1.15.8h-2.3z",
    "M0 1.2 1.15-.8h-2.3z",
    "M-1.2-.45h.75v-.75h.9v.75h.75v.9h-.75v.75h-.9v-.75h-.75z",
    "M-1.3-.6h2.6v1.2h-2.6z",
    "M-.6-1.3h1.2v2.6h-1.2z",
];

/// Size and look of a picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Style {
    pub(crate) width_px: f64,
    /// Height of line charts. Bar charts are as high as their rows.
    pub(crate) height_px: f64,
    pub(crate) font_px: f64,
    pub(crate) stroke_px: f64,
    /// What `width_px` and the like count: pixels, or points on paper.
    pub(crate) length_unit: &'static str,
    /// What stands below a picture that stands alone; may be empty.
    pub(crate) note: String,
    pub(crate) theme: Theme,
}

/// Colours by role.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Theme {
    pub ink: &'static str,
    pub muted: &'static str,
    pub grid: &'static str,
    pub rest: &'static str,
    pub ground: &'static str,
    pub colours: &'static [&'static str; COLOURS],
}

const ON_PAPER: Theme = Theme {
    ink: "#1a1a1a",
    muted: "#595959",
    grid: "#dddddd",
    rest: "#b5b5b5",
    ground: "#ffffff",
    colours: &PAPER,
};

const ON_PAGE: Theme = Theme {
    ink: "var(--ink)",
    muted: "var(--muted)",
    grid: "var(--grid)",
    rest: "var(--rest)",
    ground: "var(--card)",
    colours: &SHEET,
};

impl Style {
    /// For one column of a paper with two: 240 pt wide, letters of 7.5 pt, no title, because papers have captions.
    pub fn one_column() -> Style {
        Style {
            width_px: 240.0,
            height_px: 165.0,
            font_px: 7.5,
            stroke_px: 0.9,
            length_unit: "pt",
            note: String::new(),
            theme: ON_PAPER,
        }
    }

    /// For the whole width of a paper: 504 pt, letters of 8 pt, no title.
    pub fn full_width() -> Style {
        Style { width_px: 504.0, height_px: 230.0, font_px: 8.0, stroke_px: 1.0, ..Style::one_column() }
    }

    /// With a note below a picture that stands alone: where the data come from, whether they are synthetic. In a page, the
    /// page says that.
    pub fn with_note(self, note: impl Into<String>) -> Style {
        Style { note: note.into(), ..self }
    }

    /// For a page with `count` charts beside each other. The page shows the title.
    pub(crate) fn page(count: usize) -> Style {
        let (width_px, height_px) = match count {
            0 | 1 => (1040.0, 440.0),
            2 => (508.0, 330.0),
            _ => (336.0, 290.0),
        };
        let font_px = if count <= 1 { 13.0 } else { 12.0 };
        let stroke_px = if count <= 1 { 1.8 } else { 1.6 };
        Style {
            width_px,
            height_px,
            font_px,
            stroke_px,
            length_unit: "",
            note: String::new(),
            theme: ON_PAGE,
        }
    }

    /// The colour of the curve or part with this index; those beyond the palette share one.
    pub(crate) fn colour(&self, index: usize) -> &'static str {
        self.theme.colours.get(index).copied().unwrap_or(self.theme.rest)
    }

    /// The colour of the series with this index.
    pub(crate) fn tint(&self, index: usize, tint: Tint) -> &'static str {
        match tint {
            Tint::Own => self.colour(index),
            Tint::Chosen => self.theme.ink,
            Tint::Neutral => self.theme.muted,
        }
    }

    /// Strokes and gaps, and symbols, by index, for the script of a page.
    pub(crate) fn marks() -> ([&'static [f64]; COLOURS], [&'static str; COLOURS]) {
        (DASHES, SYMBOLS)
    }

    /// The attribute that dashes a line, with a blank before it.
    pub(crate) fn dash(&self, index: usize) -> String {
        let pattern = DASHES.get(index).copied().unwrap_or_default();
        if pattern.is_empty() {
            return String::new();
        }
        let lengths: Vec<String> =
            pattern.iter().map(|part| crate::svg::num(part * self.stroke_px)).collect();
        format!(" stroke-dasharray=\"{}\"", lengths.join(" "))
    }

    /// The outline of the symbol with this index, radius 1.
    pub(crate) fn symbol(index: usize) -> &'static str {
        SYMBOLS[index.min(COLOURS) % COLOURS]
    }
}
