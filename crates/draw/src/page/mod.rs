//! Pages: text, tables, charts and sliders in one HTML file that needs no network. It must not know what they say.

mod html;
mod json;
mod table;

pub use table::{Cells, Column, Table};

use crate::bars::BarChart;
use crate::error::{DrawError, DrawErrorKind, check_length, check_limit, check_number};
use crate::limits::{MAX_COLUMNS, MAX_CONTROLS, MAX_POSITIONS, MAX_STATES};
use crate::line::LineChart;
use crate::states::{States, check_numbers};
use crate::text::clean_name;
use crate::unit::Unit;

/// A choice among precomputed positions.
#[derive(Clone, Debug, PartialEq)]
pub struct Slider {
    /// What is chosen: "Total DRAM".
    pub label: String,
    /// How the positions read.
    pub unit: Unit,
    /// What can be chosen, ascending.
    pub positions: Vec<f64>,
    /// Index of the position at the beginning.
    pub start: usize,
}

/// A number that the reader may change.
#[derive(Clone, Debug, PartialEq)]
pub struct NumberField {
    /// What it is: "Drive writes a day".
    pub label: String,
    /// The number at the beginning.
    pub value: f64,
    /// The smallest number allowed.
    pub least: f64,
    /// The largest number allowed.
    pub most: f64,
    /// How far one click moves it.
    pub step: f64,
    /// What is written behind it: "years".
    pub suffix: String,
}

/// A factor of a derived number.
#[derive(Clone, Debug, PartialEq)]
pub enum Factor {
    /// A number that may follow sliders.
    Given(States<f64>),
    /// What the reader wrote into the number field with this index in [`Page::fields`].
    Field(usize),
}

/// Where a figure's number comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum FigureValue {
    /// It is given and may follow sliders.
    Given(States<f64>),
    /// The product of `over` divided by the product of `under`, computed again whenever one of them changes. Something
    /// divided by nothing is shown as infinite.
    Quotient {
        /// Factors above the line.
        over: Vec<Factor>,
        /// Factors below it.
        under: Vec<Factor>,
    },
}

/// One important number, shown large beside the sliders.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What it is: "Hit ratio".
    pub label: String,
    /// How it reads.
    pub unit: Unit,
    /// Where it comes from.
    pub value: FigureValue,
    /// How it is computed, or what it assumes; may be empty.
    pub note: String,
}

/// A choice between options.
#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    /// What is chosen: "Measure".
    pub label: String,
    /// What can be chosen.
    pub options: Vec<String>,
}

/// One large chart of several; the reader chooses which.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// What can be chosen.
    pub selects: Vec<Select>,
    /// A chart for each combination of options; those of the first option of the first choice come first. All have the same
    /// series in the same order.
    pub charts: Vec<LineChart>,
}

impl Choice {
    fn check(&self) -> Result<(), DrawError> {
        let place = || "the charts to choose from".to_owned();
        let wanted = self.selects.iter().map(|select| select.options.len()).product();
        check_limit(wanted, MAX_STATES, place)?;
        if wanted == 0 {
            return Err(DrawError::new(
                DrawErrorKind::Empty,
                place(),
                "a choice has no options; give at least one",
            ));
        }
        check_length(self.charts.len(), wanted, place)
    }
}

/// Something in a section.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A paragraph.
    Text(String),
    /// A list of sentences; which ones may follow sliders.
    Sentences(States<Vec<String>>),
    /// A table.
    Table(Table),
    /// Line charts beside each other, three at most in one row.
    Lines(Vec<LineChart>),
    /// One large chart of several.
    Choice(Choice),
    /// Bars.
    Bars(BarChart),
}

/// A part of a page with its heading.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// The heading.
    pub title: String,
    /// What follows it.
    pub items: Vec<Item>,
}

/// A page. [`Page::html`] writes it.
///
/// Its address keeps what the reader chose: `#slider=5,7&field=1.5` opens it with the first slider at position 5, the
/// second at position 7 and the first number field at 1.5.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// The heading and the name of the window.
    pub title: String,
    /// What comes first below the heading, a paragraph each: what whoever reads no further should know.
    pub lead: Vec<String>,
    /// What stands below that: where the data come from, whether they are synthetic.
    pub subtitle: String,
    /// Sliders, which [`States`] name by their index here.
    pub sliders: Vec<Slider>,
    /// Number fields, which [`Factor::Field`] names by their index here.
    pub fields: Vec<NumberField>,
    /// Important numbers.
    pub figures: Vec<Figure>,
    /// The body.
    pub sections: Vec<Section>,
    /// The last lines: program and version.
    pub footer: String,
}

/// Where a chart stands: alone or in a page, and where the page's sliders stand.
pub(crate) struct Frame<'a> {
    /// The id of the element that names the chart; none for a picture that stands alone.
    pub caption: Option<&'a str>,
    /// How many positions each slider has.
    pub counts: &'a [usize],
    /// Where each slider stands.
    pub positions: &'a [usize],
}

impl Frame<'_> {
    /// A picture without a page.
    pub fn alone() -> Frame<'static> {
        Frame { caption: None, counts: &[], positions: &[] }
    }
}

impl Slider {
    fn check(&self) -> Result<(), DrawError> {
        let place = || format!("the slider '{}'", clean_name(&self.label));
        check_limit(self.positions.len(), MAX_POSITIONS, place)?;
        check_numbers(&self.positions, place)?;
        if self.positions.windows(2).any(|pair| pair[1] < pair[0]) {
            return Err(DrawError::new(DrawErrorKind::Order, place(), "its positions fall; sort them"));
        }
        if self.start >= self.positions.len() {
            let problem =
                format!("it starts at position {} of {}, counted from 0", self.start, self.positions.len());
            return Err(DrawError::new(DrawErrorKind::Control, place(), problem));
        }
        Ok(())
    }
}

impl NumberField {
    fn check(&self) -> Result<(), DrawError> {
        let place = || format!("the number field '{}'", clean_name(&self.label));
        check_numbers(&[self.value, self.least, self.most, self.step], place)?;
        if !(self.least <= self.value && self.value <= self.most && self.step > 0.0) {
            let problem = "it starts outside its range, or its step is not above zero";
            return Err(DrawError::new(DrawErrorKind::Control, place(), problem));
        }
        Ok(())
    }
}

impl Figure {
    fn check(&self, page: &Page, counts: &[usize]) -> Result<(), DrawError> {
        let place = || format!("the figure '{}'", clean_name(&self.label));
        let check_states = |states: &States<f64>| {
            states.check(counts, place)?;
            states.states.iter().try_for_each(|&value| check_number(value, place))
        };
        match &self.value {
            FigureValue::Given(states) => check_states(states),
            FigureValue::Quotient { over, under } => {
                over.iter().chain(under).try_for_each(|factor| match factor {
                    Factor::Given(states) => check_states(states),
                    Factor::Field(index) if *index < page.fields.len() => Ok(()),
                    Factor::Field(index) => {
                        let problem = format!(
                            "it uses field {index}, but there are {}; count from 0",
                            page.fields.len()
                        );
                        Err(DrawError::new(DrawErrorKind::Control, place(), problem))
                    }
                })
            }
        }
    }

    /// The number as the page shows it at first.
    fn first(&self, page: &Page, counts: &[usize], positions: &[usize]) -> f64 {
        let value = |factor: &Factor| match factor {
            Factor::Given(states) => *states.at(counts, positions),
            Factor::Field(index) => page.fields[*index].value,
        };
        match &self.value {
            FigureValue::Given(states) => *states.at(counts, positions),
            FigureValue::Quotient { over, under } => {
                over.iter().map(value).product::<f64>() / under.iter().map(value).product::<f64>()
            }
        }
    }
}

impl Page {
    /// The page as one HTML file, which opens without a network and forbids itself to use one. The same page gives the
    /// same bytes.
    ///
    /// # Errors
    /// Data that cannot be drawn, see [`DrawErrorKind`].
    pub fn html(&self) -> Result<String, DrawError> {
        check_limit(self.sliders.len(), MAX_CONTROLS, || "the page's sliders".to_owned())?;
        check_limit(self.fields.len(), MAX_CONTROLS, || "the page's number fields".to_owned())?;
        check_limit(self.figures.len(), MAX_COLUMNS, || "the page's figures".to_owned())?;
        self.sliders.iter().try_for_each(Slider::check)?;
        self.fields.iter().try_for_each(NumberField::check)?;
        let counts: Vec<usize> = self.sliders.iter().map(|slider| slider.positions.len()).collect();
        let positions: Vec<usize> = self.sliders.iter().map(|slider| slider.start).collect();
        self.figures.iter().try_for_each(|figure| figure.check(self, &counts))?;
        html::write(self, &counts, &positions)
    }
}
