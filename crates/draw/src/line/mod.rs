//! Charts of curves and points over two axes. It must not know what the curves say.

mod curve;
mod legend;
mod picture;

pub(crate) use legend::flow;
pub(crate) use picture::LineData;

use crate::axis::Axis;
use crate::error::{DrawError, DrawErrorKind, check_length, check_limit, check_number};
use crate::limits::{MAX_POINTS, MAX_SERIES};
use crate::states::{States, check_numbers};
use crate::style::Style;
use crate::text::clean_name;

/// How the points of a series are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A staircase: each value holds until the next point, the last one to the end of the axis. A hit curve is one.
    Steps,
    /// Straight lines.
    Lines,
    /// Not at all: a scatter.
    Points,
}

/// What the colour of a series says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tint {
    /// Which series it is: the colour of its place among them, the same in every chart of a page that has them in this order.
    #[default]
    Own,
    /// That it is the one that was chosen.
    Chosen,
    /// Nothing: it is one of those beside the chosen one.
    Neutral,
}

/// One curve or cloud of points.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// What it is called.
    pub name: String,
    /// Its points `(x, y)`, x ascending unless they are not joined.
    pub points: Vec<(f64, f64)>,
    /// How they are joined.
    pub shape: Shape,
    /// The error of each point's y, drawn as a band from y - error to y + error. None, or one for each point.
    pub errors: Vec<f64>,
    /// What each point is called. None, or one for each point.
    pub labels: Vec<String>,
    /// What its colour says.
    pub tint: Tint,
}

impl Series {
    /// A series without errors and labels.
    pub fn new(name: impl Into<String>, shape: Shape, points: Vec<(f64, f64)>) -> Series {
        Series { name: name.into(), points, shape, errors: Vec::new(), labels: Vec::new(), tint: Tint::Own }
    }

    /// The series with an error for each point.
    pub fn with_errors(mut self, errors: Vec<f64>) -> Series {
        self.errors = errors;
        self
    }

    /// The series with a colour that says this.
    pub fn tinted(mut self, tint: Tint) -> Series {
        self.tint = tint;
        self
    }

    /// The series with a label for each point.
    pub fn with_labels(mut self, labels: Vec<String>) -> Series {
        self.labels = labels;
        self
    }

    fn check(&self) -> Result<(), DrawError> {
        let place = || format!("the series '{}'", clean_name(&self.name));
        check_limit(self.points.len(), MAX_POINTS, place)?;
        for &(x, y) in &self.points {
            check_number(x, place)?;
            check_number(y, place)?;
        }
        if let Some(at) = self.points.windows(2).position(|pair| pair[1].0 < pair[0].0)
            && self.shape != Shape::Points
        {
            let problem = format!("x falls after point {at}, counted from 0; sort the points");
            return Err(DrawError::new(DrawErrorKind::Order, place(), problem));
        }
        if !self.errors.is_empty() {
            check_length(self.errors.len(), self.points.len(), || format!("{}, errors", place()))?;
            check_numbers(&self.errors, place)?;
            if let Some(error) = self.errors.iter().find(|&&error| error < 0.0) {
                let problem = format!("the error {error} is below zero; give its size");
                return Err(DrawError::new(DrawErrorKind::Number, place(), problem));
            }
        }
        if !self.labels.is_empty() {
            check_length(self.labels.len(), self.points.len(), || format!("{}, labels", place()))?;
        }
        Ok(())
    }
}

/// One marked place on each curve: a chosen size.
#[derive(Clone, Debug, PartialEq)]
pub struct Markers {
    /// What is marked: "Size given".
    pub name: String,
    /// x for each series, in their order; none for a series without a marker. On a page they may follow sliders.
    pub x: States<Vec<Option<f64>>>,
}

/// Curves or points over two axes.
///
/// The first [`crate::COLOURS`] series get a colour, a dash pattern, a symbol and a label each; of hundreds the rest are
/// thin and grey. So the series that matter most come first.
#[derive(Clone, Debug, PartialEq)]
pub struct LineChart {
    /// What it shows, in a few words.
    pub title: String,
    /// What it shows, in a sentence for those who cannot see it.
    pub description: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The curves, the important ones first.
    pub series: Vec<Series>,
    /// A marked place on each curve.
    pub markers: Option<Markers>,
}

impl LineChart {
    /// A chart without series yet.
    pub fn new(title: impl Into<String>, description: impl Into<String>, x: Axis, y: Axis) -> LineChart {
        LineChart {
            title: title.into(),
            description: description.into(),
            x,
            y,
            series: Vec::new(),
            markers: None,
        }
    }

    /// The chart as a picture of its own.
    ///
    /// # Errors
    /// Data that cannot be drawn, see [`crate::DrawErrorKind`]; markers that follow a slider are among them, because a
    /// picture has none.
    pub fn svg(&self, style: &Style) -> Result<String, DrawError> {
        Ok(self.draw(style, &crate::page::Frame::alone())?.0)
    }

    /// Checks everything but the axes. `counts` are the positions of the page's sliders.
    pub(crate) fn check(&self, counts: &[usize]) -> Result<(), DrawError> {
        let place = || format!("the chart '{}'", clean_name(&self.title));
        check_limit(self.series.len(), MAX_SERIES, place)?;
        self.series.iter().try_for_each(Series::check)?;
        let Some(markers) = &self.markers else { return Ok(()) };
        let place = || format!("the markers of the chart '{}'", clean_name(&self.title));
        markers.x.check(counts, place)?;
        for state in &markers.x.states {
            check_length(state.len(), self.series.len(), place)?;
            check_numbers(state.iter().flatten(), place)?;
        }
        Ok(())
    }
}
