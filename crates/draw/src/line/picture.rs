//! Draws a line chart. It must not know pages and what the curves say.

use serde::Serialize;

use super::curve::{Curve, band};
use super::legend::{flow, spread};
use super::{LineChart, Series, Shape, Tint};
use crate::axis::{AxisWish, Bounds, Placed, Range, Scale};
use crate::error::DrawError;
use crate::page::Frame;
use crate::states::States;
use crate::style::{COLOURS, Style};
use crate::svg::{Anchor, Svg, num, to_hundredths};
use crate::text::{clean_name, clean_text, escape, shorten, width_px};

/// A chart narrower than this many ems has its legend below.
const NARROW_EM: f64 = 45.0;
/// The share of the width that labels beside the curves may take.
const LABEL_SHARE: f64 = 0.24;
/// Lines with at most this many points show them by symbols.
const MOST_SYMBOLS: usize = 48;
/// Margin for symbols at either end of an axis of points, as a share of its range.
const POINT_MARGIN: f64 = 0.02;
/// Scatters with at most this many points show their labels.
const MOST_LABELS: usize = 40;

/// What a page's script needs to draw the chart anew.
#[derive(Serialize)]
pub(crate) struct LineData {
    kind: &'static str,
    title: String,
    about: String,
    x: AxisWish,
    y: AxisWish,
    width: f64,
    height: f64,
    font: f64,
    stroke: f64,
    series: Vec<SeriesData>,
    /// What is marked.
    marked: Option<String>,
    markers: Option<States<Vec<Option<f64>>>>,
}

#[derive(Serialize)]
struct SeriesData {
    name: String,
    shape: &'static str,
    colour: &'static str,
    x: Vec<f64>,
    y: Vec<f64>,
    errors: Vec<f64>,
    labels: Vec<String>,
}

/// Where everything is.
struct Layout {
    x: Placed,
    y: Placed,
    /// Places of the legend's entries below the chart; none if labels stand beside the curves.
    below: Option<Vec<(usize, f64)>>,
    /// The widest a label may be.
    label_px: f64,
    height_px: f64,
}

impl LineChart {
    /// The picture, and what a script needs to know of it.
    pub(crate) fn draw(&self, style: &Style, frame: &Frame<'_>) -> Result<(String, LineData), DrawError> {
        self.check(frame.counts)?;
        let layout = self.layout(style)?;
        let curves: Vec<Curve> =
            self.series.iter().map(|series| Curve::of(series, &layout.x, &layout.y)).collect();
        let mut svg = match frame.caption {
            None => {
                Svg::alone(style, layout.height_px, &clean_text(&self.title), &clean_text(&self.description))
            }
            Some(caption) => Svg::inside(style, layout.height_px, caption),
        };
        svg.open("class=\"axes\"");
        self.draw_axes(&mut svg, style, &layout);
        svg.close();
        for (index, series) in
            self.series.iter().enumerate().filter(|(_, series)| !series.errors.is_empty()).rev()
        {
            let outline = band(series, &layout.x, &layout.y);
            let colour = style.tint(index, series.tint);
            svg.element(&format!(
                "path class=\"s band\" data-s=\"{index}\" d=\"{outline}\" fill=\"{colour}\" fill-opacity=\".18\""
            ));
        }
        // What comes first lies on top.
        for (index, (series, curve)) in self.series.iter().zip(&curves).enumerate().rev() {
            let class = if index < COLOURS { "s" } else { "s rest" };
            svg.open(&format!("class=\"{class}\" data-s=\"{index}\""));
            draw_series(&mut svg, style, (index, series, curve));
            svg.close();
        }
        self.draw_markers(&mut svg, style, &layout, &curves, frame);
        match &layout.below {
            None => self.label_beside(&mut svg, style, &layout, &curves),
            Some(places) => self.label_below(&mut svg, style, &layout, places),
        }
        self.label_points(&mut svg, style, &layout, &curves);
        Ok((svg.finish(), self.data(style)))
    }

    fn ranges(&self) -> Result<(Range, Range), DrawError> {
        let (mut across, mut upright) = (Bounds::new(), Bounds::new());
        for series in &self.series {
            for (at, &(x, y)) in series.points.iter().enumerate() {
                let error = series.errors.get(at).copied().unwrap_or(0.0);
                across.add(x);
                upright.add_with_error(y, error, self.y.unit);
            }
        }
        let marked = self.markers.iter().flat_map(|markers| &markers.x.states).flatten().flatten();
        marked.for_each(|&x| across.add(x));
        let mut across = Range::of(&self.x, across)?;
        if !across.is_log && self.series.iter().any(|series| series.shape == Shape::Points) {
            // A symbol at an end would lie over what is beside the chart.
            let margin = POINT_MARGIN * (across.high - across.low);
            (across.low, across.high) = (across.low - margin, across.high + margin);
        }
        Ok((across, Range::of(&self.y, upright)?))
    }

    fn layout(&self, style: &Style) -> Result<Layout, DrawError> {
        let (across, upright) = self.ranges()?;
        let font = style.font_px;
        let names = self.legend_names();
        let is_narrow = style.width_px < NARROW_EM * font;
        let most_px = if is_narrow { style.width_px * 0.6 } else { style.width_px * LABEL_SHARE };
        let label_px = names.iter().map(|name| width_px(name, font)).fold(0.0, f64::max).min(most_px);
        let top = 2.0 * font;
        let foot = 3.6 * font;
        let bottom = style.height_px - foot;
        let y = Placed::upright(upright, self.y.unit, bottom, top, font);
        let left = y.label_px(font) + 0.9 * font;
        let is_named = self.series.len() > 1;
        let right = if is_narrow || !is_named { 2.4 * font } else { label_px + 2.4 * font };
        let x = Placed::across(across, self.x.unit, left, style.width_px - right, font, false);
        let widths =
            names.iter().map(|name| width_px(name, font).min(label_px) + 3.6 * font).collect::<Vec<f64>>();
        let below =
            is_narrow.then(|| if is_named { flow(&widths, style.width_px - left) } else { Vec::new() });
        let rows = below.iter().flatten().map(|place| place.0 + 1).max().unwrap_or(0);
        Ok(Layout { x, y, below, label_px, height_px: style.height_px + rows as f64 * 1.5 * font })
    }

    /// What the legend says: the names with a colour, and how many have none.
    fn legend_names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.series.iter().take(COLOURS).map(|series| clean_name(&series.name)).collect();
        match self.series.len().saturating_sub(COLOURS) {
            0 => {}
            1 => names.push("and 1 other".to_owned()),
            others => names.push(format!("and {others} others")),
        }
        names
    }

    fn draw_axes(&self, svg: &mut Svg, style: &Style, layout: &Layout) {
        let (x, y, font) = (&layout.x, &layout.y, style.font_px);
        let theme = &style.theme;
        let line_px = style.stroke_px * 0.5;
        for tick in &y.ticks {
            let at = y.at(tick.value);
            svg.line((x.from_px, at), (x.to_px, at), theme.grid, line_px);
            svg.text((x.from_px - 0.5 * font, at + 0.35 * font), Anchor::End, theme.muted, "", &tick.label);
        }
        svg.line((x.from_px, y.from_px), (x.to_px, y.from_px), theme.muted, line_px);
        for tick in &x.ticks {
            let at = x.at(tick.value);
            svg.line((at, y.from_px), (at, y.from_px + 0.4 * font), theme.muted, line_px);
            svg.text((at, y.from_px + 1.45 * font), Anchor::Middle, theme.muted, "", &tick.label);
        }
        let label = |axis: &crate::axis::Axis| {
            let scale = if axis.scale == Scale::Log { ", log scale" } else { "" };
            format!("{}{scale}", clean_name(&axis.label))
        };
        let space = x.to_px - x.from_px;
        let (y_label, x_label) =
            (shorten(&label(&self.y), space * 0.6, font), shorten(&label(&self.x), space, font));
        svg.text((0.3 * font, y.to_px - 0.9 * font), Anchor::Start, theme.ink, "", &y_label);
        let middle = (x.from_px + x.to_px) / 2.0;
        svg.text((middle, y.from_px + 3.0 * font), Anchor::Middle, theme.ink, "", &x_label);
    }

    fn draw_markers(
        &self,
        svg: &mut Svg,
        style: &Style,
        layout: &Layout,
        curves: &[Curve],
        frame: &Frame<'_>,
    ) {
        let Some(markers) = &self.markers else { return };
        let state = markers.x.at(frame.counts, frame.positions);
        for (index, (x, curve)) in state.iter().zip(curves).enumerate().rev() {
            let place = x.and_then(|x| {
                let px = to_hundredths(layout.x.at(x));
                Some((px as f64 / 100.0, curve.y_of(x, px, &layout.x)? as f64 / 100.0))
            });
            let radius = style.font_px * if index < COLOURS { 0.42 } else { 0.25 };
            let more = format!(" class=\"marker\" data-s=\"{index}\"");
            draw_symbol(svg, style, (index, self.series[index].tint), place, radius, &more);
        }
        let at = (layout.x.to_px, layout.y.to_px - 0.9 * style.font_px);
        let name =
            shorten(&clean_name(&markers.name), (layout.x.to_px - layout.x.from_px) * 0.4, style.font_px);
        svg.text(at, Anchor::End, style.theme.muted, "", &name);
        let dot = (at.0 - width_px(&name, style.font_px) - 0.8 * style.font_px, at.1 - 0.35 * style.font_px);
        svg.element(&format!(
            "circle cx=\"{}\" cy=\"{}\" r=\"{}\" fill=\"{}\"",
            num(dot.0),
            num(dot.1),
            num(style.font_px * 0.38),
            style.theme.muted
        ));
    }

    /// Labels at the ends of the curves, with a leader to each.
    fn label_beside(&self, svg: &mut Svg, style: &Style, layout: &Layout, curves: &[Curve]) {
        if self.series.len() < 2 {
            return;
        }
        let (font, right) = (style.font_px, layout.x.to_px);
        let (top, bottom) = (layout.y.to_px - 0.7 * font, layout.y.from_px + 0.7 * font);
        let space = ((bottom - top) / (1.25 * font)) as usize;
        let shown = curves.len().min(COLOURS).min(space.saturating_sub(1));
        let end_of =
            |curve: &Curve| curve.corners().last().map(|&(x, y)| (x as f64 / 100.0, y as f64 / 100.0));
        let ends: Vec<Option<(f64, f64)>> = curves[..shown].iter().map(end_of).collect();
        let mut order: Vec<usize> = (0..shown).collect();
        let height = |index: usize| ends[index].map_or(layout.y.from_px, |end| end.1);
        order.sort_by(|&a, &b| height(a).total_cmp(&height(b)));
        let mut wanted: Vec<f64> = order.iter().map(|&index| height(index)).collect();
        let others = self.series.len() - shown;
        if others > 0 {
            wanted.push(bottom);
        }
        let places = spread(&wanted, 1.25 * font, top, bottom);
        for (&index, &at) in order.iter().zip(&places) {
            // A leader from the curve's end, or a stroke if the curve ends elsewhere.
            let near = ends[index]
                .filter(|end| right - end.0 < 3.0 * font && self.series[index].shape != Shape::Points);
            let from = near.map_or((right + 0.4 * font, at), |end| (end.0 + 0.2 * font, end.1));
            let entry = (index, from, (right + 1.5 * font, at));
            self.draw_entry(svg, style, layout.label_px, entry);
        }
        if let (Some(&at), true) = (places.get(shown), others > 0) {
            let names = if others == 1 { "and 1 other".to_owned() } else { format!("and {others} others") };
            svg.text((right + 1.9 * font, at + 0.35 * font), Anchor::Start, style.theme.muted, "", &names);
        }
    }

    /// One entry of the legend: a line between two places, and the name behind the second.
    fn draw_entry(
        &self,
        svg: &mut Svg,
        style: &Style,
        label_px: f64,
        entry: (usize, (f64, f64), (f64, f64)),
    ) {
        let (index, from, to) = entry;
        let (font, series) = (style.font_px, &self.series[index]);
        let name = clean_name(&series.name);
        svg.open(&format!("class=\"key\" data-s=\"{index}\" tabindex=\"0\""));
        svg.tip(&name);
        if series.shape == Shape::Points {
            draw_symbol(
                svg,
                style,
                (index, series.tint),
                Some(((from.0 + to.0) / 2.0, to.1)),
                font * 0.36,
                "",
            );
        } else {
            svg.element(&format!(
                "path d=\"M{} {}L{} {}\" stroke=\"{}\" stroke-width=\"{}\" fill=\"none\"{}",
                num(from.0),
                num(from.1),
                num(to.0),
                num(to.1),
                style.tint(index, series.tint),
                num(style.stroke_px),
                style.dash(index)
            ));
        }
        let text = shorten(&name, label_px, font);
        svg.text((to.0 + 0.4 * font, to.1 + 0.35 * font), Anchor::Start, style.theme.ink, "", &text);
        svg.close();
    }

    fn label_below(&self, svg: &mut Svg, style: &Style, layout: &Layout, places: &[(usize, f64)]) {
        let font = style.font_px;
        for (index, &(row, x)) in places.iter().enumerate() {
            let from = (layout.x.from_px + x, layout.y.from_px + (4.3 + 1.5 * row as f64) * font);
            if index == COLOURS {
                let rest = self.legend_names().pop().unwrap_or_default();
                svg.text((from.0, from.1 + 0.35 * font), Anchor::Start, style.theme.muted, "", &rest);
            } else {
                self.draw_entry(svg, style, layout.label_px, (index, from, (from.0 + 2.0 * font, from.1)));
            }
        }
    }

    /// Labels beside the points of scatters, as long as none would cover another or a point.
    fn label_points(&self, svg: &mut Svg, style: &Style, layout: &Layout, curves: &[Curve]) {
        let font = style.font_px * 0.9;
        let scatters: Vec<(&Series, &Curve)> =
            self.series.iter().zip(curves).filter(|(series, _)| series.shape == Shape::Points).collect();
        let px = |&(x, y): &(i64, i64)| (x as f64 / 100.0, y as f64 / 100.0);
        // The legend stands there.
        let is_beside = layout.below.is_none() && self.series.len() > 1;
        let most_right = if is_beside { layout.x.to_px + 0.5 * font } else { style.width_px };
        // A symbol's radius and some air.
        let half = 0.5 * style.font_px;
        let around = |(x, y): (f64, f64)| [x - half, x + half, y - half, y + half];
        let mut taken: Vec<[f64; 4]> =
            scatters.iter().flat_map(|(_, curve)| curve.corners()).map(|point| around(px(point))).collect();
        for (series, curve) in scatters.into_iter().filter(|(series, _)| series.labels.len() <= MOST_LABELS) {
            for (label, (x, y)) in series.labels.iter().zip(curve.corners().iter().map(px)) {
                let text = shorten(&clean_name(label), style.width_px * LABEL_SHARE, font);
                let width = width_px(&text, font);
                // A little above or below the point, so that a line through it stays clear.
                let place = |start: f64, bottom: f64| [start, start + width, bottom - 0.8 * font, bottom];
                let is_free = |place: &[f64; 4]| {
                    let covers = |other: &[f64; 4]| {
                        place[0] < other[1]
                            && other[0] < place[1]
                            && place[2] < other[3]
                            && other[2] < place[3]
                    };
                    place[0] >= layout.x.from_px
                        && place[1] <= most_right
                        && place[2] >= layout.y.to_px - 0.6 * font
                        && place[3] <= layout.y.from_px
                        && !taken.iter().any(covers)
                };
                let (right, left) = (x + 0.6 * font, x - 0.6 * font - width);
                let (above, below) = (y - 0.3 * font, y + 1.1 * font);
                let sides =
                    [place(right, above), place(left, above), place(left, below), place(right, below)];
                let Some(side) = sides.into_iter().find(is_free) else { continue };
                taken.push(side);
                let more = format!("font-size=\"{}\"", num(font));
                svg.text((side[0], side[3]), Anchor::Start, style.theme.muted, &more, &text);
            }
        }
    }

    /// What a script needs to draw the chart anew.
    pub(crate) fn data(&self, style: &Style) -> LineData {
        let of_series = |(index, series): (usize, &Series)| SeriesData {
            name: clean_name(&series.name),
            shape: match series.shape {
                Shape::Steps => "steps",
                Shape::Lines => "lines",
                Shape::Points => "points",
            },
            colour: style.tint(index, series.tint),
            x: series.points.iter().map(|point| point.0).collect(),
            y: series.points.iter().map(|point| point.1).collect(),
            errors: series.errors.clone(),
            labels: series.labels.iter().map(|label| clean_name(label)).collect(),
        };
        LineData {
            kind: "lines",
            title: clean_text(&self.title),
            about: clean_text(&self.description),
            x: AxisWish::of(&self.x),
            y: AxisWish::of(&self.y),
            width: style.width_px,
            height: style.height_px,
            font: style.font_px,
            stroke: style.stroke_px,
            series: self.series.iter().enumerate().map(of_series).collect(),
            marked: self.markers.as_ref().map(|markers| clean_name(&markers.name)),
            markers: self.markers.as_ref().map(|markers| markers.x.clone()),
        }
    }
}

fn draw_series(svg: &mut Svg, style: &Style, (index, series, curve): (usize, &Series, &Curve)) {
    let colour = style.tint(index, series.tint);
    let is_loose = series.shape == Shape::Points;
    let width_px = if index < COLOURS { style.stroke_px } else { style.stroke_px * 0.4 };
    let stroke = if is_loose { "none".to_owned() } else { escape(colour) };
    svg.element(&format!(
        "path class=\"curve\" d=\"{}\" stroke=\"{stroke}\" stroke-width=\"{}\" stroke-linejoin=\"round\" fill=\"none\"{}",
        curve.path_data(),
        num(width_px),
        style.dash(index)
    ));
    let is_few = series.shape == Shape::Lines && series.points.len() <= MOST_SYMBOLS && index < COLOURS;
    if is_loose || is_few {
        for &(x, y) in curve.corners() {
            let radius = style.font_px * if is_loose { 0.36 } else { 0.24 };
            draw_symbol(
                svg,
                style,
                (index, series.tint),
                Some((x as f64 / 100.0, y as f64 / 100.0)),
                radius,
                "",
            );
        }
    }
}

/// The symbol of a series; without a place it is there but hidden, for the script to place.
fn draw_symbol(
    svg: &mut Svg,
    style: &Style,
    (index, tint): (usize, Tint),
    place: Option<(f64, f64)>,
    radius: f64,
    more: &str,
) {
    let (x, y) = place.unwrap_or_default();
    let hidden = if place.is_none() { " visibility=\"hidden\"" } else { "" };
    svg.element(&format!(
        "path{more} d=\"{}\" transform=\"translate({} {}) scale({})\" fill=\"{}\" stroke=\"{}\" stroke-width=\"{}\"{hidden}",
        Style::symbol(index),
        num(x),
        num(y),
        num(radius),
        style.tint(index, tint),
        style.theme.ground,
        num(0.22)
    ));
}
