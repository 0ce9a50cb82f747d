//! Charts of horizontal bars, so that long names can be read. It must not know what the bars measure.

use serde::Serialize;

use crate::axis::{Axis, AxisData, Bounds, Placed, Range};
use crate::error::{DrawError, DrawErrorKind, check_length, check_limit, check_number};
use crate::limits::{MAX_COLUMNS, MAX_ROWS};
use crate::line::flow;
use crate::page::Frame;
use crate::states::States;
use crate::style::Style;
use crate::svg::{Anchor, Svg, num, to_hundredths};
use crate::text::{clean_name, clean_text, shorten, width_px};
use crate::unit::Unit;

/// The share of the width that the names may take.
const NAME_SHARE: f64 = 0.26;
/// With more rows than this, rows are lower and letters smaller.
const MANY_ROWS: usize = 24;
/// Axes that a panel has at most: the shortest shows a thousandth of the longest.
const MOST_LEVELS: i32 = 11;

/// How the parts of one row stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrangement {
    /// Below each other, each from zero.
    Grouped,
    /// One behind the other; the number is their sum, or a dash where one of them is not known.
    Stacked,
}

/// One bar in each row.
#[derive(Clone, Debug, PartialEq)]
pub struct BarPart {
    /// What it is: "Reads".
    pub name: String,
    /// Its length in each row, from zero up; none where nothing is known. On a page it may follow sliders.
    pub values: States<Vec<Option<f64>>>,
}

/// Bars that share an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// What is measured: "DRAM".
    pub title: String,
    /// How its numbers read.
    pub unit: Unit,
    /// How its parts stand.
    pub arrangement: Arrangement,
    /// Its parts.
    pub parts: Vec<BarPart>,
}

/// Rows of bars, in one or more panels beside each other that share the rows' names.
///
/// Bars begin at zero. Where they follow sliders, the axis of a panel changes by factors of two and only when the bars no
/// longer fit or would be short, so that most moves of a slider can be followed by eye.
#[derive(Clone, Debug, PartialEq)]
pub struct BarChart {
    /// What it shows, in a few words.
    pub title: String,
    /// What it shows, in a sentence for those who cannot see it.
    pub description: String,
    /// Names of the rows.
    pub rows: Vec<String>,
    /// The panels, from left to right.
    pub panels: Vec<Panel>,
    /// Whose colour each row has, where rows are series of other charts: the index there. Without it colours tell parts apart,
    /// and bars of panels with one part have none.
    pub row_series: Option<Vec<usize>>,
}

/// What a page's script needs to move the bars.
#[derive(Serialize)]
pub(crate) struct BarData {
    kind: &'static str,
    title: String,
    width: f64,
    font: f64,
    names: Vec<String>,
    panels: Vec<PanelData>,
}

#[derive(Serialize)]
struct PanelData {
    title: String,
    /// Of the parts.
    names: Vec<String>,
    levels: Vec<LevelData>,
    stacked: bool,
    parts: Vec<States<Vec<Option<f64>>>>,
}

#[derive(Serialize)]
struct LevelData {
    x: AxisData,
    ticks: Vec<(f64, String)>,
}

/// Where everything is.
struct Layout {
    /// The axis of each panel that fits where the sliders stand.
    axes: Vec<Placed>,
    /// All axes of each panel, from the longest range to the shortest.
    levels: Vec<Vec<Placed>>,
    font_px: f64,
    name_px: f64,
    legend: Vec<(usize, f64)>,
    /// Top of the first row.
    top_px: f64,
    bar_px: f64,
    row_px: f64,
    height_px: f64,
}

impl Panel {
    /// How many bars lie below each other in a row.
    fn lanes(&self) -> usize {
        if self.arrangement == Arrangement::Stacked { 1 } else { self.parts.len() }
    }

    /// The longest bar, or stack, of `rows` rows, where `value` says how long a part is.
    fn longest(&self, rows: usize, value: impl Fn(&BarPart, usize) -> Option<f64>) -> f64 {
        let lengths = (0..rows).map(|row| {
            let parts = self.parts.iter().filter_map(|part| value(part, row));
            if self.arrangement == Arrangement::Stacked { parts.sum() } else { parts.fold(0.0, f64::max) }
        });
        lengths.fold(0.0, f64::max)
    }

    /// Axes for every state of the sliders, each about half as long as the one before.
    fn levels(&self, rows: usize, place: impl Fn(Range) -> Placed) -> Result<Vec<Placed>, DrawError> {
        let most_of = |part: &BarPart, row: usize| {
            part.values.states.iter().filter_map(|state| state[row]).reduce(f64::max)
        };
        let longest = self.longest(rows, most_of);
        let longest_in = |state: &Vec<Option<f64>>| state.iter().flatten().copied().fold(0.0, f64::max);
        let least_of =
            |part: &BarPart| part.values.states.iter().map(longest_in).fold(f64::INFINITY, f64::min);
        // In no state are all bars shorter than this.
        let least = self.parts.iter().map(least_of).fold(0.0, f64::max);
        let lengths = (0..MOST_LEVELS).map(|level| (level, longest / 2_f64.powi(level)));
        let useful = lengths.take_while(|&(level, length)| level == 0 || length >= least);
        let axis = Axis::linear(self.title.clone(), self.unit);
        useful
            .map(|(_, length)| Ok(place(Range::of(&axis.clone().reaching(0.0, length), Bounds::new())?)))
            .collect()
    }

    fn check(&self, rows: usize, counts: &[usize]) -> Result<(), DrawError> {
        let place = || format!("the panel '{}'", clean_name(&self.title));
        if self.parts.is_empty() {
            return Err(DrawError::new(DrawErrorKind::Empty, place(), "it has no parts; give at least one"));
        }
        check_limit(self.parts.len(), MAX_COLUMNS, place)?;
        for part in &self.parts {
            let place = || {
                format!("the bars '{}' of the panel '{}'", clean_name(&part.name), clean_name(&self.title))
            };
            part.values.check(counts, place)?;
            for state in &part.values.states {
                check_length(state.len(), rows, place)?;
                for &value in state.iter().flatten() {
                    check_number(value, place)?;
                    if value < 0.0 {
                        let problem =
                            format!("{value} is below zero; bars begin at zero, show changes in a table");
                        return Err(DrawError::new(DrawErrorKind::Number, place(), problem));
                    }
                }
            }
        }
        Ok(())
    }
}

impl BarChart {
    /// The chart as a picture of its own, as high as its rows.
    ///
    /// # Errors
    /// Data that cannot be drawn, see [`DrawErrorKind`]; bars that follow a slider are among them, because a picture has
    /// none.
    pub fn svg(&self, style: &Style) -> Result<String, DrawError> {
        Ok(self.draw(style, &Frame::alone())?.0)
    }

    fn check(&self, counts: &[usize]) -> Result<(), DrawError> {
        let place = || format!("the chart '{}'", clean_name(&self.title));
        if self.rows.is_empty() || self.panels.is_empty() {
            return Err(DrawError::new(DrawErrorKind::Empty, place(), "it has no rows or no panels"));
        }
        check_limit(self.rows.len(), MAX_ROWS, || format!("the rows of {}", place()))?;
        check_limit(self.panels.len(), MAX_COLUMNS, || format!("the panels of {}", place()))?;
        if let Some(series) = &self.row_series {
            check_length(series.len(), self.rows.len(), || format!("the colours of {}", place()))?;
        }
        self.panels.iter().try_for_each(|panel| panel.check(self.rows.len(), counts))
    }

    /// The picture, and what a script needs to know of it.
    pub(crate) fn draw(&self, style: &Style, frame: &Frame<'_>) -> Result<(String, BarData), DrawError> {
        self.check(frame.counts)?;
        let layout = self.layout(style, frame)?;
        let mut svg = match frame.caption {
            None => {
                Svg::alone(style, layout.height_px, &clean_text(&self.title), &clean_text(&self.description))
            }
            Some(caption) => Svg::inside(style, layout.height_px, caption),
        };
        self.draw_head(&mut svg, style, &layout);
        for (row, name) in self.rows.iter().enumerate() {
            self.draw_row(&mut svg, style, &layout, frame, (row, name));
        }
        let panels = self.panels.iter().zip(&layout.levels).map(|(panel, levels)| PanelData {
            title: clean_name(&panel.title),
            names: panel.parts.iter().map(|part| clean_name(&part.name)).collect(),
            levels: levels.iter().map(level_data).collect(),
            stacked: panel.arrangement == Arrangement::Stacked,
            parts: panel.parts.iter().map(|part| part.values.clone()).collect(),
        });
        let names = self.rows.iter().map(|name| clean_name(name)).collect();
        let data = BarData {
            kind: "bars",
            title: clean_text(&self.title),
            width: style.width_px,
            font: layout.font_px,
            names,
            panels: panels.collect(),
        };
        Ok((svg.finish(), data))
    }

    /// Names of parts that need a legend, each with the index of its colour.
    fn legend_entries(&self) -> Vec<(usize, String)> {
        let parts = self.panels.iter().flat_map(|panel| panel.parts.iter().map(move |part| (panel, part)));
        let with_colours = parts.enumerate();
        with_colours
            .filter(|(_, (panel, _))| panel.parts.len() > 1)
            .map(|(at, (_, part))| (at, clean_name(&part.name)))
            .collect()
    }

    fn layout(&self, style: &Style, frame: &Frame<'_>) -> Result<Layout, DrawError> {
        let font_px = style.font_px * if self.rows.len() > MANY_ROWS { 0.9 } else { 1.0 };
        let names = self.rows.iter().map(|name| width_px(&clean_name(name), font_px));
        let name_px = names.fold(0.0, f64::max).min(style.width_px * NAME_SHARE);
        let first = name_px + 1.2 * font_px;
        let panel_px = (style.width_px - first) / self.panels.len() as f64;
        let (mut axes, mut levels) = (Vec::new(), Vec::new());
        for (at, panel) in self.panels.iter().enumerate() {
            let from = first + panel_px * at as f64;
            // Behind the longest bar there is room for its number.
            let to = from + (panel_px - 6.5 * font_px).max(panel_px * 0.3);
            let place = |range| Placed::across(range, panel.unit, from, to, font_px, true);
            let all = panel.levels(self.rows.len(), place)?;
            let value = |part: &BarPart, row: usize| part.values.at(frame.counts, frame.positions)[row];
            let longest = panel.longest(self.rows.len(), value);
            axes.extend(all.iter().rev().find(|axis| axis.range.high >= longest).or(all.first()).cloned());
            levels.push(all);
        }
        let widths: Vec<f64> =
            self.legend_entries().iter().map(|(_, name)| width_px(name, font_px) + 3.0 * font_px).collect();
        let legend = flow(&widths, style.width_px - first);
        let legend_rows = legend.last().map_or(0.0, |place| place.0 as f64 + 1.4);
        let top_px = font_px * (3.6 + 1.5 * legend_rows);
        let lanes = self.panels.iter().map(Panel::lanes).max().unwrap_or(1);
        let (bar_px, row_px) = match (lanes, self.rows.len() > MANY_ROWS) {
            (1, false) => (1.15 * font_px, 1.75 * font_px),
            (1, true) => (1.05 * font_px, 1.4 * font_px),
            _ => (font_px, (lanes as f64 + 0.7) * font_px),
        };
        let height_px = top_px + row_px * self.rows.len() as f64 + 0.6 * font_px;
        Ok(Layout { axes, levels, font_px, name_px, legend, top_px, bar_px, row_px, height_px })
    }

    /// The colour of a bar, which is its row's, or its part's where a panel has several.
    fn bar_colour(&self, style: &Style, panel: &Panel, (row, part): (usize, usize)) -> &'static str {
        match &self.row_series {
            Some(series) => style.colour(series[row]),
            None if panel.parts.len() > 1 => style.colour(part),
            None => style.theme.muted,
        }
    }

    /// Legend, and each panel's title, ticks and grid.
    fn draw_head(&self, svg: &mut Svg, style: &Style, layout: &Layout) {
        let (font, theme) = (layout.font_px, &style.theme);
        let left = layout.axes.first().map_or(0.0, |axis| axis.from_px);
        let y = 1.2 * font;
        for ((colour, name), (row, x)) in self.legend_entries().iter().zip(&layout.legend) {
            let at = (left + x, y + 1.5 * font * *row as f64);
            svg.open("class=\"part\"");
            draw_bar(svg, style, style.colour(*colour), (at.0, at.1 - 0.8 * font, font, 0.9 * font), "");
            let name = shorten(name, style.width_px - left - 2.0 * font, font);
            svg.text(
                (at.0 + 1.4 * font, at.1),
                Anchor::Start,
                theme.ink,
                &format!("font-size=\"{}\"", num(font)),
                &name,
            );
            svg.close();
        }
        let bottom = layout.height_px - 0.4 * font;
        for (panel, axis) in self.panels.iter().zip(&layout.axes) {
            let title = shorten(&clean_name(&panel.title), axis.to_px - axis.from_px + 6.0 * font, font);
            svg.text(
                (axis.from_px, layout.top_px - 2.4 * font),
                Anchor::Start,
                theme.ink,
                "class=\"panel\" font-weight=\"bold\"",
                &title,
            );
            svg.open("class=\"ticks\"");
            for tick in &axis.ticks {
                let x = axis.at(tick.value);
                svg.line((x, layout.top_px - 0.3 * font), (x, bottom), theme.grid, style.stroke_px * 0.5);
                let anchor = if tick.value == 0.0 { Anchor::Start } else { Anchor::Middle };
                let more = format!("font-size=\"{}\"", num(0.92 * font));
                svg.text((x, layout.top_px - 0.8 * font), anchor, theme.muted, &more, &tick.label);
            }
            svg.close();
        }
    }

    /// One row: its name, and for each panel its bars and their numbers, in the order in which the script finds them.
    fn draw_row(
        &self,
        svg: &mut Svg,
        style: &Style,
        layout: &Layout,
        frame: &Frame<'_>,
        (row, name): (usize, &str),
    ) {
        let (font, top) = (layout.font_px, layout.top_px + layout.row_px * row as f64);
        let middle = top + layout.row_px / 2.0;
        svg.open(&format!("class=\"row\" data-r=\"{row}\""));
        svg.tip(&clean_name(name));
        let short = shorten(&clean_name(name), layout.name_px, font);
        let name_at = (layout.name_px + 0.4 * font, middle + 0.35 * font);
        svg.text(
            name_at,
            Anchor::End,
            style.theme.ink,
            &format!("class=\"name\" font-size=\"{}\"", num(font)),
            &short,
        );
        let mut colour = 0;
        for (panel, axis) in self.panels.iter().zip(&layout.axes) {
            let first_lane = middle - layout.bar_px * panel.lanes() as f64 / 2.0;
            let (mut sum, mut y, mut is_known) = (0.0, first_lane, true);
            for part in &panel.parts {
                let known = part.values.at(frame.counts, frame.positions)[row];
                let (from, value) = (axis.at(sum), known.unwrap_or(0.0));
                let width = axis.at(sum + value) - from;
                // A hair of ground between bars keeps them apart without colour.
                let place = (from, y, width, layout.bar_px - 0.08 * font);
                draw_bar(svg, style, self.bar_colour(style, panel, (row, colour)), place, " class=\"bar\"");
                if panel.arrangement == Arrangement::Stacked {
                    sum += value;
                    is_known &= known.is_some();
                } else {
                    draw_value(
                        svg,
                        style,
                        font,
                        (axis.at(value), y + layout.bar_px * 0.5),
                        &panel.unit.show(known.unwrap_or(f64::NAN)),
                    );
                    y += layout.bar_px;
                }
                colour += 1;
            }
            if panel.arrangement == Arrangement::Stacked {
                let shown = if is_known { sum } else { f64::NAN };
                draw_value(svg, style, font, (axis.at(sum), middle), &panel.unit.show(shown));
            }
        }
        svg.close();
    }
}

fn level_data(axis: &Placed) -> LevelData {
    let ticks =
        axis.ticks.iter().map(|tick| (to_hundredths(axis.at(tick.value)) as f64 / 100.0, tick.label.clone()));
    LevelData { x: axis.data(), ticks: ticks.collect() }
}

fn draw_bar(
    svg: &mut Svg,
    style: &Style,
    colour: &str,
    (x, y, width, height): (f64, f64, f64, f64),
    more: &str,
) {
    svg.element(&format!(
        "rect{more} x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\" stroke=\"{}\" stroke-width=\"{}\"",
        num(x),
        num(y),
        num(width),
        num(height),
        colour,
        style.theme.ground,
        num(style.stroke_px * 0.25)
    ));
}

fn draw_value(svg: &mut Svg, style: &Style, font: f64, (x, y): (f64, f64), text: &str) {
    let more = format!("class=\"value\" font-size=\"{}\"", num(0.92 * font));
    svg.text((x + 0.4 * font, y + 0.33 * font), Anchor::Start, style.theme.muted, &more, text);
}
