//! What an experiment draws, as numbers: each chart is also a table. It must not know how either looks.

use lode_draw::Unit;
use serde::Serialize;

/// Bars or curves.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Chart {
    /// Some bars for each row.
    Bars(Bars),
    /// Curves over one axis.
    Lines(Lines),
}

/// Rows of bars.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bars {
    /// What it shows.
    pub title: String,
    /// How the numbers read.
    pub unit: Unit,
    /// Names of the rows.
    pub rows: Vec<String>,
    /// What each bar of a row is, and its value in each row, from zero up; none where nothing was measured.
    pub parts: Vec<BarPart>,
}

/// One bar of every row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BarPart {
    /// What it is.
    pub name: String,
    /// In each row.
    pub values: Vec<Option<f64>>,
}

/// Curves.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Lines {
    /// What it shows.
    pub title: String,
    /// The horizontal axis.
    pub x: Scale,
    /// The vertical axis.
    pub y: Scale,
    /// The curves.
    pub series: Vec<Curve>,
}

/// One axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scale {
    /// What is measured.
    pub label: String,
    /// How its numbers read.
    pub unit: Unit,
    /// Equal factors are equally long.
    pub log: bool,
}

impl Scale {
    /// Equal steps are equally long.
    pub fn linear(label: &str, unit: Unit) -> Scale {
        Scale { label: label.to_owned(), unit, log: false }
    }

    /// Equal factors are equally long.
    pub fn log(label: &str, unit: Unit) -> Scale {
        Scale { log: true, ..Scale::linear(label, unit) }
    }
}

/// One curve.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curve {
    /// What it is.
    pub name: String,
    /// Its points `(x, y)`, x ascending.
    pub points: Vec<(f64, f64)>,
}

impl Bars {
    /// Rows without bars yet.
    pub fn new(title: &str, unit: Unit, rows: impl IntoIterator<Item = impl Into<String>>) -> Bars {
        Bars {
            title: title.to_owned(),
            unit,
            rows: rows.into_iter().map(Into::into).collect(),
            parts: Vec::new(),
        }
    }

    /// With one more bar in every row.
    #[must_use]
    pub fn part(mut self, name: &str, values: impl IntoIterator<Item = Option<f64>>) -> Bars {
        let values = values.into_iter().map(|value| value.filter(|value| value.is_finite()));
        self.parts.push(BarPart { name: name.to_owned(), values: values.collect() });
        self
    }
}

impl Lines {
    /// Axes without curves yet.
    pub fn new(title: &str, x: Scale, y: Scale) -> Lines {
        Lines { title: title.to_owned(), x, y, series: Vec::new() }
    }

    /// With one more curve; points without a value are left out.
    #[must_use]
    pub fn curve(mut self, name: &str, points: impl IntoIterator<Item = (f64, Option<f64>)>) -> Lines {
        let points = points.into_iter().filter_map(|(x, y)| Some((x, y.filter(|y| y.is_finite())?)));
        self.series.push(Curve { name: name.to_owned(), points: points.collect() });
        self
    }
}

impl Chart {
    /// What it shows.
    pub fn title(&self) -> &str {
        match self {
            Chart::Bars(bars) => &bars.title,
            Chart::Lines(lines) => &lines.title,
        }
    }

    /// The same as a table: titles of the columns, and rows of as many cells, the first of which names the row.
    pub fn table(&self) -> (Vec<String>, Vec<Vec<String>>) {
        match self {
            Chart::Bars(bars) => bars.table(),
            Chart::Lines(lines) => lines.table(),
        }
    }
}

fn cell(unit: Unit, value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| unit.show(value))
}

impl Bars {
    fn table(&self) -> (Vec<String>, Vec<Vec<String>>) {
        let titles = std::iter::once(String::new()).chain(self.parts.iter().map(|part| part.name.clone()));
        let row = |(at, name): (usize, &String)| {
            let values =
                self.parts.iter().map(|part| cell(self.unit, part.values.get(at).copied().flatten()));
            std::iter::once(name.clone()).chain(values).collect()
        };
        (titles.collect(), self.rows.iter().enumerate().map(row).collect())
    }
}

impl Lines {
    fn table(&self) -> (Vec<String>, Vec<Vec<String>>) {
        let mut at: Vec<f64> =
            self.series.iter().flat_map(|curve| curve.points.iter().map(|point| point.0)).collect();
        at.sort_by(f64::total_cmp);
        at.dedup();
        let row = |&x: &f64| {
            let value = |curve: &Curve| curve.points.iter().find(|point| point.0 == x).map(|point| point.1);
            let values = self.series.iter().map(|curve| cell(self.y.unit, value(curve)));
            std::iter::once(self.x.unit.show(x)).chain(values).collect()
        };
        let titles =
            std::iter::once(self.x.label.clone()).chain(self.series.iter().map(|curve| curve.name.clone()));
        (titles.collect(), at.iter().map(row).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_are_tables() {
        let bars = Bars::new("b", Unit::Count, ["one", "two"])
            .part("x", [Some(1.0), Some(f64::NAN)])
            .part("y", [Some(2.0)]);
        let (titles, rows) = Chart::Bars(bars).table();
        assert_eq!(titles, ["", "x", "y"]);
        assert_eq!(rows, [["one", "1", "2"], ["two", "-", "-"]]);
        let lines = Lines::new("l", Scale::linear("at", Unit::Count), Scale::linear("", Unit::Ratio))
            .curve("x", [(2.0, Some(0.5)), (1.0, None), (3.0, Some(f64::NAN))])
            .curve("y", [(1.0, Some(0.25))]);
        let (titles, rows) = Chart::Lines(lines).table();
        assert_eq!(titles, ["at", "x", "y"]);
        assert_eq!(rows, [["1", "-", "25 %"], ["2", "50 %", "-"]]);
    }
}
