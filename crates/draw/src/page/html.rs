//! Writes a page as HTML, with its data as JSON for the script. It must not know what the page says.

use std::collections::HashMap;

use serde::Serialize;

use super::json::{pool_states, to_json};
use super::table::TableData;
use super::{Choice, Factor, Figure, FigureValue, Frame, Item, NumberField, Page, Select, Slider};
use crate::bars::BarData;
use crate::error::{DrawError, DrawErrorKind, check_limit};
use crate::limits::{MAX_COLUMNS, MAX_ROWS};
use crate::line::LineData;
use crate::states::States;
use crate::style::{COLOURS, Style};
use crate::text::{clean_name, clean_text, escape};
use crate::unit::Unit;

const SHEET: &str = include_str!("page.css");
/// The script, in the order in which its parts need each other.
const SCRIPTS: [&str; 9] = [
    include_str!("base.js"),
    include_str!("numbers.js"),
    include_str!("axes.js"),
    include_str!("draw.js"),
    include_str!("save.js"),
    include_str!("chart.js"),
    include_str!("bars.js"),
    include_str!("tables.js"),
    include_str!("page.js"),
];

/// Charts beside each other in one row of a page.
const CHARTS_A_ROW: usize = 3;
/// With more bars than this they scroll in a frame of their own.
const MANY_BARS: usize = 60;

/// Nothing is fetched and nothing is sent, whatever else is in the page.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; \
                      base-uri 'none'; form-action 'none'";

#[derive(Serialize)]
struct Data {
    /// How many curves of a chart have a colour.
    colours: usize,
    /// How curves differ without colour, by index.
    dashes: [&'static [f64]; COLOURS],
    symbols: [&'static str; COLOURS],
    /// What stands below a chart that is saved.
    note: String,
    sliders: Vec<SliderData>,
    fields: Vec<FieldData>,
    figures: Vec<FigureData>,
    items: Vec<ItemData>,
}

#[derive(Serialize)]
struct SliderData {
    positions: Vec<f64>,
    unit: Unit,
}

#[derive(Serialize)]
struct FieldData {
    least: f64,
    most: f64,
}

#[derive(Serialize)]
struct FigureData {
    unit: Unit,
    over: Vec<FactorData>,
    under: Vec<FactorData>,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum FactorData {
    Given(States<f64>),
    Field(usize),
}

#[derive(Serialize)]
#[serde(untagged)]
enum ItemData {
    Sentences { kind: &'static str, texts: Vec<String>, sentences: States<Vec<usize>> },
    Table(TableData),
    Lines(Box<LineData>),
    Choice { kind: &'static str, selects: Vec<SelectData>, charts: Vec<LineData> },
    Bars(BarData),
}

#[derive(Serialize)]
struct SelectData {
    label: String,
    options: Vec<String>,
}

struct Writer<'a> {
    frame: Frame<'a>,
    out: String,
    items: Vec<ItemData>,
}

/// The whole file. The page's controls must be checked before.
pub(super) fn write(page: &Page, counts: &[usize], positions: &[usize]) -> Result<String, DrawError> {
    let title = escape(&clean_text(&page.title));
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>{title}</title>\n<style>\n{SHEET}</style>\n</head>\n<body>\n<header>\n<h1>{title}</h1>\n"
    );
    for paragraph in page.lead.iter().chain([&page.subtitle]).filter(|text| !text.is_empty()) {
        out.push_str(&format!("<p>{}</p>\n", escape(&clean_text(paragraph))));
    }
    out.push_str("</header>\n");
    write_controls(&mut out, page, counts, positions);
    out.push_str("<main>\n");
    let mut writer = Writer { frame: Frame { caption: None, counts, positions }, out, items: Vec::new() };
    for section in &page.sections {
        writer.out.push_str(&format!("<section>\n<h2>{}</h2>\n", escape(&clean_text(&section.title))));
        section.items.iter().try_for_each(|item| writer.write(item))?;
        writer.out.push_str("</section>\n");
    }
    let Writer { mut out, items, .. } = writer;
    out.push_str("</main>\n");
    if !page.footer.is_empty() {
        out.push_str(&format!("<footer>{}</footer>\n", escape(&clean_text(&page.footer))));
    }
    let unfit = |error: serde_json::Error| {
        DrawError::new(DrawErrorKind::Number, "the page's data", error.to_string())
    };
    let json = data_json(&data_of(page, items)).map_err(unfit)?;
    out.push_str(&format!("<script type=\"application/json\" id=\"data\">{json}</script>\n"));
    out.push_str(&format!(
        "<script>\n(() => {{\n'use strict';\n{}}})();\n</script>\n</body>\n</html>\n",
        SCRIPTS.join("\n")
    ));
    Ok(out)
}

/// Sliders, number fields and figures, which stay in sight.
fn write_controls(out: &mut String, page: &Page, counts: &[usize], positions: &[usize]) {
    if page.sliders.is_empty() && page.fields.is_empty() && page.figures.is_empty() {
        return;
    }
    out.push_str("<div id=\"controls\">\n");
    if !page.sliders.is_empty() || !page.fields.is_empty() {
        out.push_str(
            "<noscript>Sliders and fields need JavaScript; without it the page shows one state.</noscript>\n",
        );
        out.push_str("<div class=\"inputs\">\n");
        page.sliders.iter().enumerate().for_each(|(at, slider)| out.push_str(&slider_html(at, slider)));
        page.fields.iter().enumerate().for_each(|(at, field)| out.push_str(&field_html(at, field)));
        out.push_str("</div>\n");
    }
    if !page.figures.is_empty() {
        out.push_str("<dl class=\"figures\" aria-live=\"polite\">\n");
        for figure in &page.figures {
            out.push_str(&format!(
                "<div class=\"figure\"><dt>{}</dt><dd>{}</dd>",
                escape(&clean_name(&figure.label)),
                escape(&figure.unit.show(figure.first(page, counts, positions)))
            ));
            if !figure.note.is_empty() {
                out.push_str(&format!("<dd class=\"note\">{}</dd>", escape(&clean_text(&figure.note))));
            }
            out.push_str("</div>\n");
        }
        out.push_str("</dl>\n");
    }
    out.push_str("</div>\n");
}

fn slider_html(at: usize, slider: &Slider) -> String {
    format!(
        "<label class=\"slider\"><span>{}</span> <output for=\"slider{at}\">{}</output>\
         <input type=\"range\" id=\"slider{at}\" min=\"0\" max=\"{}\" step=\"1\" value=\"{}\"></label>\n",
        escape(&clean_name(&slider.label)),
        escape(&slider.unit.show(slider.positions[slider.start])),
        slider.positions.len() - 1,
        slider.start
    )
}

fn field_html(at: usize, field: &NumberField) -> String {
    format!(
        "<label class=\"field\"><span>{}</span><span><input type=\"number\" id=\"field{at}\" min=\"{}\" max=\"{}\" \
         step=\"{}\" value=\"{}\"> {}</span></label>\n",
        escape(&clean_name(&field.label)),
        field.least,
        field.most,
        field.step,
        field.value,
        escape(&clean_name(&field.suffix))
    )
}

impl Writer<'_> {
    fn write(&mut self, item: &Item) -> Result<(), DrawError> {
        match item {
            Item::Text(text) => self.out.push_str(&format!("<p>{}</p>\n", escape(&clean_text(text)))),
            Item::Sentences(sentences) => self.write_sentences(sentences)?,
            Item::Table(table) => {
                let (html, data) = table.write(&format!("item{}", self.items.len()), &self.frame)?;
                self.out.push_str(&html);
                self.items.push(ItemData::Table(data));
            }
            Item::Bars(chart) => {
                let class = if chart.rows.len() > MANY_BARS { "card bars many" } else { "card bars" };
                let caption = self.caption();
                let frame = Frame { caption: Some(&caption), ..self.frame };
                let (svg, data) = chart.draw(&Style::page(1), &frame)?;
                self.figure(class, &chart.title, &chart.description, &svg);
                self.items.push(ItemData::Bars(data));
            }
            Item::Lines(charts) => {
                check_limit(charts.len(), MAX_COLUMNS, || "charts beside each other".to_owned())?;
                let a_row = charts.len().clamp(1, CHARTS_A_ROW);
                self.out.push_str(&format!("<div class=\"beside of{a_row}\">\n"));
                for chart in charts {
                    let caption = self.caption();
                    let frame = Frame { caption: Some(&caption), ..self.frame };
                    let (svg, data) = chart.draw(&Style::page(a_row), &frame)?;
                    self.figure("card lines", &chart.title, &chart.description, &svg);
                    self.items.push(ItemData::Lines(Box::new(data)));
                }
                self.out.push_str("</div>\n");
            }
            Item::Choice(choice) => self.write_choice(choice)?,
        }
        Ok(())
    }

    /// The first chart; the script draws the others where it stands.
    fn write_choice(&mut self, choice: &Choice) -> Result<(), DrawError> {
        choice.check()?;
        let style = Style::page(1);
        let (caption, mut data) = (self.caption(), Vec::new());
        for (at, chart) in choice.charts.iter().enumerate() {
            if at > 0 {
                chart.check(self.frame.counts)?;
                data.push(chart.data(&style));
                continue;
            }
            let frame = Frame { caption: Some(&caption), ..self.frame };
            let (svg, first) = chart.draw(&style, &frame)?;
            self.figure("card lines", &chart.title, &chart.description, &svg);
            data.push(first);
        }
        let select = |select: &Select| SelectData {
            label: clean_name(&select.label),
            options: select.options.iter().map(|option| clean_name(option)).collect(),
        };
        let selects = choice.selects.iter().map(select).collect();
        self.items.push(ItemData::Choice { kind: "choice", selects, charts: data });
        Ok(())
    }

    /// The id of the next item's caption.
    fn caption(&self) -> String {
        format!("item{}", self.items.len())
    }

    fn figure(&mut self, class: &str, title: &str, description: &str, svg: &str) {
        let caption = self.caption();
        self.out.push_str(&format!(
            "<figure class=\"{class}\" data-item>\n<figcaption id=\"{caption}\"><b>{}</b> <span>{}</span></figcaption>\n\
             <div class=\"scroll\">{svg}</div>\n</figure>\n",
            escape(&clean_text(title)),
            escape(&clean_text(description))
        ));
    }

    fn write_sentences(&mut self, sentences: &States<Vec<String>>) -> Result<(), DrawError> {
        let place = || "the sentences".to_owned();
        sentences.check(self.frame.counts, place)?;
        sentences.states.iter().try_for_each(|state| check_limit(state.len(), MAX_ROWS, place))?;
        self.out.push_str("<ul class=\"sentences\" data-item>\n");
        for sentence in sentences.at(self.frame.counts, self.frame.positions) {
            self.out.push_str(&format!("<li>{}</li>\n", escape(&clean_text(sentence))));
        }
        self.out.push_str("</ul>\n");
        // Many states say the same, so that every sentence is written once.
        let (mut texts, mut known) = (Vec::new(), HashMap::new());
        let mut number = |sentence: &String| {
            *known.entry(sentence.clone()).or_insert_with(|| {
                texts.push(clean_text(sentence));
                texts.len() - 1
            })
        };
        let states = sentences.states.iter().map(|state| state.iter().map(&mut number).collect()).collect();
        let sentences = States { sliders: sentences.sliders.clone(), states };
        self.items.push(ItemData::Sentences { kind: "sentences", texts, sentences });
        Ok(())
    }
}

fn data_of(page: &Page, items: Vec<ItemData>) -> Data {
    let sliders = page
        .sliders
        .iter()
        .map(|slider| SliderData { positions: slider.positions.clone(), unit: slider.unit });
    let fields = page.fields.iter().map(|field| FieldData { least: field.least, most: field.most });
    let figures = page.figures.iter().map(figure_data);
    let (dashes, symbols) = Style::marks();
    Data {
        colours: COLOURS,
        dashes,
        symbols,
        note: clean_text(&page.subtitle),
        sliders: sliders.collect(),
        fields: fields.collect(),
        figures: figures.collect(),
        items,
    }
}

fn data_json(data: &Data) -> serde_json::Result<String> {
    let mut value = serde_json::to_value(data)?;
    let mut pool = Vec::new();
    pool_states(&mut value, &mut pool, &mut HashMap::new());
    value["pool"] = serde_json::Value::Array(pool);
    to_json(&value)
}

fn figure_data(figure: &Figure) -> FigureData {
    let factors = |factors: &[Factor]| {
        let data = factors.iter().map(|factor| match factor {
            Factor::Given(states) => FactorData::Given(states.clone()),
            Factor::Field(index) => FactorData::Field(*index),
        });
        data.collect()
    };
    let (over, under) = match &figure.value {
        FigureValue::Given(states) => (vec![FactorData::Given(states.clone())], Vec::new()),
        FigureValue::Quotient { over, under } => (factors(over), factors(under)),
    };
    FigureData { unit: figure.unit, over, under }
}
