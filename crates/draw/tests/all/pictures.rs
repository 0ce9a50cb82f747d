//! The structure of drawn charts.

use lode_draw::*;

use crate::sample::compare;

fn chart(series: Vec<Series>) -> LineChart {
    let (x, y) = (Axis::log("Size", Unit::Bytes), Axis::linear("Hit ratio", Unit::Ratio).reaching(0.0, 1.0));
    LineChart { series, ..LineChart::new("Title", "Description", x, y) }
}

fn steps(name: &str, height: f64) -> Series {
    Series::new(name, Shape::Steps, vec![(4096.0, 0.0), (8192.0, height), (1048576.0, height)])
}

/// Values of an attribute of the elements that contain `mark`.
fn attributes<'a>(svg: &'a str, mark: &str, name: &str) -> Vec<&'a str> {
    let start = format!(" {name}=\"");
    let elements = svg.split('<').filter(|element| element.contains(mark));
    elements.filter_map(|element| element.split_once(&start)?.1.split('"').next()).collect()
}

#[test]
fn a_staircase_is_drawn_as_one() {
    let svg = chart(vec![steps("one", 0.5)]).svg(&Style::full_width()).unwrap();
    let paths = attributes(&svg, "class=\"curve\"", "d");
    assert_eq!(paths.len(), 1);
    // Right, up, right: nothing slopes, and nothing but the two levels is drawn.
    assert!(
        !paths[0].contains('l') && paths[0].matches('h').count() == 2 && paths[0].matches('v').count() == 1
    );
}

#[test]
fn every_picture_has_title_description_and_labelled_axes() {
    for style in [Style::one_column(), Style::full_width()] {
        let svg = chart(vec![steps("one", 0.5), steps("two", 0.7)]).svg(&style).unwrap();
        for text in [
            "<title>Title</title>",
            "<desc>Description</desc>",
            "Size, log scale",
            ">Hit ratio<",
            ">one<",
            ">two<",
        ] {
            assert!(svg.contains(text), "{text} is missing");
        }
        assert!(svg.contains(">1 MiB</text>") && svg.contains(">100 %</text>"), "ticks");
        assert!(!svg.contains("var("), "a picture of its own has no style sheet");
    }
    let svg = compare::stacked().svg(&Style::one_column()).unwrap();
    assert!(svg.contains("width=\"240pt\"") && svg.contains(">etica-full<") && svg.contains(">Fills<"));
}

#[test]
fn curves_differ_without_colour() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let mut chart = chart(names.iter().enumerate().map(|(at, name)| steps(name, 0.1 * at as f64)).collect());
    chart.markers = Some(Markers { name: "given".to_owned(), x: States::fixed(vec![Some(8192.0); 8]) });
    let svg = chart.svg(&Style::full_width()).unwrap();
    let mut dashes = attributes(&svg, "class=\"curve\"", "stroke-dasharray");
    let mut symbols = attributes(&svg, "class=\"marker\"", "d");
    let mut colours = attributes(&svg, "class=\"curve\"", "stroke");
    for (kind, values, wanted) in
        [("dashes", &mut dashes, 7), ("symbols", &mut symbols, 8), ("colours", &mut colours, 8)]
    {
        values.sort_unstable();
        values.dedup();
        assert_eq!(values.len(), wanted, "{kind}: {values:?}");
    }
}

#[test]
fn of_hundreds_of_curves_the_first_are_labelled_and_the_rest_grey() {
    let series = (0..300).map(|at| steps(&format!("vm{at}"), at as f64 / 300.0)).collect();
    let svg = chart(series).svg(&Style::full_width()).unwrap();
    assert_eq!(attributes(&svg, "class=\"curve\"", "d").len(), 300);
    assert!(svg.contains(">vm7<") && !svg.contains(">vm8<") && svg.contains(">and 292 others<"));
    let strokes = attributes(&svg, "class=\"curve\"", "stroke");
    let grey = strokes.iter().filter(|stroke| **stroke == strokes[0]).count();
    assert_eq!(grey, 292, "what comes last is drawn first");
}

#[test]
fn labels_do_not_overlap() {
    // Letters of the whole width are 8 pt high.
    let series = (0..8).map(|at| steps(&format!("vm{at}"), 0.5 + 0.001 * at as f64)).collect();
    let svg = chart(series).svg(&Style::full_width()).unwrap();
    let mut heights: Vec<f64> = svg
        .split("class=\"key\"")
        .skip(1)
        .map(|key| {
            key.split_once("<text").unwrap().1.split_once(" y=\"").unwrap().1.split('"').next().unwrap()
        })
        .map(|y| y.parse().unwrap())
        .collect();
    heights.sort_by(f64::total_cmp);
    assert_eq!(heights.len(), 8);
    assert!(heights.windows(2).all(|pair| pair[1] - pair[0] >= 8.0), "{heights:?}");
}

#[test]
fn markers_lie_on_their_curves() {
    let mut chart = chart(vec![steps("one", 0.5), steps("two", 1.0)]);
    chart.markers = Some(Markers { name: "given".to_owned(), x: States::fixed(vec![Some(65536.0), None]) });
    let svg = chart.svg(&Style::full_width()).unwrap();
    let places = attributes(&svg, "class=\"marker\"", "transform");
    // The curve's last two commands are its rise to the level at which the mark has to be.
    let path = attributes(&svg, "data-s=\"0\"", "transform");
    assert_eq!((places.len(), path.len()), (2, 1));
    let curve = attributes(&svg, "class=\"curve\"", "d")[1];
    let number = |text: &str| text.parse::<f64>().unwrap();
    let start = number(curve[1..].split_once(' ').unwrap().1.split_once('h').unwrap().0);
    let rise = number(curve.split_once('v').unwrap().1.split_once('h').unwrap().0);
    let mark = number(path[0].split_once(' ').unwrap().1.split_once(')').unwrap().0);
    assert!((start + rise - mark).abs() < 0.02, "{curve} {mark}");
    assert_eq!(attributes(&svg, "class=\"marker\"", "visibility"), ["hidden"]);
}

#[test]
fn bars_are_as_long_as_their_values() {
    // Of a number below zero nothing is known.
    let part = |name: &str, values: &[f64]| BarPart {
        name: name.to_owned(),
        values: States::fixed(values.iter().map(|value| (*value >= 0.0).then_some(*value)).collect()),
    };
    let mut bars = BarChart {
        title: "Bars".to_owned(),
        description: String::new(),
        rows: vec!["a".to_owned(), "b".to_owned()],
        panels: vec![Panel {
            title: "Panel".to_owned(),
            unit: Unit::Count,
            arrangement: Arrangement::Stacked,
            parts: vec![part("x", &[1.0, 4.0]), part("y", &[2.0, 6.0])],
        }],
        row_series: None,
    };
    let numbers = |svg: &str, name| -> Vec<f64> {
        attributes(svg, "class=\"bar\"", name).into_iter().map(|text| text.parse().unwrap()).collect()
    };
    let svg = bars.svg(&Style::full_width()).unwrap();
    let (widths, starts) = (numbers(&svg, "width"), numbers(&svg, "x"));
    assert!(
        (widths[1] - 2.0 * widths[0]).abs() < 0.02 && (widths[3] - 1.5 * widths[2]).abs() < 0.02,
        "{widths:?}"
    );
    assert!((starts[1] - starts[0] - widths[0]).abs() < 0.02, "the second part begins where the first ends");
    assert!(svg.contains(">3</text>") && svg.contains(">10</text>"), "sums are written");
    bars.panels[0].arrangement = Arrangement::Grouped;
    let starts = numbers(&bars.svg(&Style::full_width()).unwrap(), "x");
    assert!(starts.iter().all(|start| *start == starts[0]), "each part begins at zero");
    // What is not known is no zero.
    bars.panels[0].parts = vec![part("x", &[-1.0, -1.0]), part("y", &[0.0, -1.0])];
    let shown = |bars: &BarChart| {
        let svg = bars.svg(&Style::full_width()).unwrap();
        let values = svg.split("class=\"value\"").skip(1).map(|rest| rest.split(['>', '<']).nth(1).unwrap());
        values.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(shown(&bars), ["–", "0", "–", "–"]);
    bars.panels[0].arrangement = Arrangement::Stacked;
    assert_eq!(shown(&bars), ["–", "–"]);
}

#[test]
fn the_same_data_give_the_same_picture() {
    for style in [Style::one_column(), Style::full_width()] {
        assert_eq!(compare::scatter().svg(&style), compare::scatter().svg(&style));
        assert_eq!(compare::hit_ratios().svg(&style), compare::hit_ratios().svg(&style));
    }
}

/// A symbol over the axis or beside the chart would look cut off.
#[test]
fn points_at_the_ends_keep_clear_of_them() {
    let points = vec![(0.0, 1.0), (10.0, 1.0)];
    let mut chart =
        LineChart::new("T", "D", Axis::linear("Cost", Unit::Dollars), Axis::linear("Latency", Unit::Count));
    chart.series.push(Series::new("pairs", Shape::Points, points));
    let svg = chart.svg(&Style::full_width()).unwrap();
    let symbols: Vec<f64> = attributes(&svg, "translate(", "transform")
        .iter()
        .filter_map(|text| text.split_once('(')?.1.split(' ').next()?.parse().ok())
        .collect();
    // The first line is one of the grid, from one end of the axis to the other.
    let line = svg.split("<path d=\"M").nth(1).and_then(|rest| rest.split_once('L')).expect("a grid line");
    let [low, high] = [line.0, line.1].map(|end| end.split(' ').next().unwrap().parse::<f64>().unwrap());
    assert_eq!(symbols.len(), 2);
    assert!(symbols[0] > low + 5.0 && symbols[1] < high - 5.0, "{symbols:?} from {low} to {high}");
}

#[test]
fn numbers_read_well() {
    const GIB: f64 = 1073741824.0;
    let cases = [
        (Unit::Count, 0.0, "0"),
        (Unit::Count, -12.34, "-12.3"),
        (Unit::Count, 9999.0, "9999"),
        (Unit::Count, 1234567.0, "1,234,567"),
        (Unit::Count, 0.000001, "0.000001"),
        (Unit::Ratio, 0.8314, "83.1 %"),
        (Unit::Ratio, 0.0042, "0.42 %"),
        (Unit::Ratio, 1.0, "100 %"),
        (Unit::Bytes, 4096.0, "4 KiB"),
        (Unit::Bytes, 12.5 * GIB, "12.5 GiB"),
        (Unit::Bytes, 1023.9 * GIB, "1 TiB"),
        (Unit::Bytes, -38.0 * GIB, "-38 GiB"),
        (Unit::BytesPerDay, 1024.0 * GIB, "1 TiB/day"),
        (Unit::Microseconds, 850.0, "850 µs"),
        (Unit::Microseconds, 1250.0, "1.25 ms"),
        (Unit::Years, 1.0, "1 year"),
        (Unit::Years, 0.0, "0 years"),
        (Unit::Years, 0.5, "183 days"),
        (Unit::Years, 1.0 / 365.0, "1 day"),
        (Unit::Years, 0.00001802, "0.158 hours"),
        (Unit::Years, f64::INFINITY, "∞ years"),
        (Unit::Dollars, 0.345, "$0.35"),
        (Unit::Dollars, 0.0, "$0.00"),
        (Unit::Dollars, 0.00712, "$0.00712"),
        (Unit::Dollars, 12500.0, "$12,500"),
        (Unit::Named("J"), 12.0, "12 J"),
        (Unit::Count, f64::NAN, "–"),
    ];
    for (unit, value, text) in cases {
        assert_eq!(unit.show(value), text, "{unit:?} {value}");
    }
}
