//! Names and numbers that nobody wanted.

use lode_draw::*;
use proptest::prelude::*;

use crate::sample::planner;

fn line(points: Vec<(f64, f64)>) -> LineChart {
    let (x, y) = (Axis::linear("x", Unit::Count), Axis::linear("y", Unit::Count));
    LineChart { series: vec![Series::new("s", Shape::Steps, points)], ..LineChart::new("t", "d", x, y) }
}

fn bars(values: States<Vec<Option<f64>>>) -> BarChart {
    let part = BarPart { name: "p".to_owned(), values };
    let panel = Panel {
        title: "p".to_owned(),
        unit: Unit::Count,
        arrangement: Arrangement::Grouped,
        parts: vec![part],
    };
    BarChart {
        title: "t".to_owned(),
        description: String::new(),
        rows: vec!["r".to_owned()],
        panels: vec![panel],
        row_series: None,
    }
}

fn kind_of<T: std::fmt::Debug>(result: Result<T, DrawError>) -> DrawErrorKind {
    let error = result.unwrap_err();
    assert!(error.to_string().starts_with("Cannot draw "), "{error}");
    error.kind()
}

#[test]
fn data_that_make_no_picture_are_refused() {
    let style = Style::full_width();
    let svg = |points| kind_of(line(points).svg(&style));
    assert_eq!(svg(vec![(0.0, f64::NAN)]), DrawErrorKind::Number);
    assert_eq!(svg(vec![(f64::INFINITY, 0.0)]), DrawErrorKind::Number);
    assert_eq!(svg(vec![(2.0, 0.0), (1.0, 0.0)]), DrawErrorKind::Order);
    assert_eq!(svg(Vec::new()), DrawErrorKind::Empty);
    let mut chart = line(vec![(1.0, 1.0)]);
    chart.series[0].errors = vec![1.0, 2.0];
    assert_eq!(kind_of(chart.svg(&style)), DrawErrorKind::Length);
    chart.series[0].errors = vec![-1.0];
    assert_eq!(kind_of(chart.svg(&style)), DrawErrorKind::Number);
    chart.series = vec![chart.series[0].clone(); limits::MAX_SERIES + 1];
    assert_eq!(kind_of(chart.svg(&style)), DrawErrorKind::Limit);
    let mut chart = line(vec![(1.0, 1.0)]);
    chart.markers = Some(Markers { name: "m".to_owned(), x: States::by(0, vec![vec![Some(1.0)]]) });
    assert_eq!(kind_of(chart.svg(&style)), DrawErrorKind::Control, "a picture has no sliders");
    assert_eq!(kind_of(bars(States::fixed(vec![Some(-1.0)])).svg(&style)), DrawErrorKind::Number);
    assert_eq!(kind_of(bars(States::fixed(vec![Some(1.0), None])).svg(&style)), DrawErrorKind::Length);
    let empty = BarChart { rows: Vec::new(), ..bars(States::fixed(Vec::new())) };
    assert_eq!(kind_of(empty.svg(&style)), DrawErrorKind::Empty);
}

#[test]
fn pages_that_do_not_hold_together_are_refused() {
    let wrong = |change: fn(&mut Page)| {
        let mut page = planner::planner_page(2, 5);
        page.html().unwrap();
        change(&mut page);
        kind_of(page.html())
    };
    assert_eq!(wrong(|page| page.sliders[0].start = 99), DrawErrorKind::Control);
    assert_eq!(wrong(|page| page.sliders[0].positions.truncate(20)), DrawErrorKind::Length);
    assert_eq!(wrong(|page| page.sliders.truncate(1)), DrawErrorKind::Control);
    assert_eq!(wrong(|page| page.fields.clear()), DrawErrorKind::Control);
    assert_eq!(wrong(|page| page.fields[0].value = 0.0), DrawErrorKind::Control);
    assert_eq!(wrong(|page| page.sliders[1].positions.reverse()), DrawErrorKind::Order);
    assert_eq!(wrong(|page| page.sliders[1].positions[3] = f64::NAN), DrawErrorKind::Number);
}

/// Whether markup is well formed as far as tags go: every one that opens closes, in order, and no text holds a `<`.
fn is_well_formed(svg: &str) -> bool {
    let mut open = Vec::new();
    for tag in svg.split('<').skip(1) {
        let Some((tag, _)) = tag.split_once('>') else { return false };
        if tag.matches('"').count() % 2 != 0 {
            return false;
        }
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name) {
                return false;
            }
        } else if !tag.ends_with('/') {
            open.push(tag.split(' ').next().unwrap_or_default());
        }
    }
    open.is_empty()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_name_gives_a_well_formed_picture(name in "(\\PC|<script>|</svg>|\"|'|&|\u{0}|\u{202e}|\n|]]>|<!--){0,20}") {
        let mut chart = line(vec![(1.0, 1.0), (2.0, 3.0)]);
        chart.series[0].name = name.clone();
        chart.series.push(Series::new(&name, Shape::Points, vec![(1.0, 1.0)]).with_labels(vec![name.clone()]));
        (chart.title, chart.description) = (name.clone(), name.clone());
        (chart.x.label, chart.y.label) = (name.clone(), name.clone());
        for style in [Style::one_column(), Style::full_width()] {
            let svg = chart.svg(&style).unwrap();
            prop_assert!(is_well_formed(&svg), "{svg}");
            let is_clean = !svg.contains(['\0', '\u{202e}']);
            prop_assert!(is_clean);
        }
        let bars = BarChart { title: name.clone(), rows: vec![name.clone()], ..bars(States::fixed(vec![Some(1.0)])) };
        prop_assert!(is_well_formed(&bars.svg(&Style::full_width()).unwrap()));
    }

    #[test]
    fn any_numbers_give_a_picture_within_its_frame(
        points in proptest::collection::vec((prop_oneof![-1e30..1e30, 0.0..1.0, Just(0.0), Just(5e-324)], -1e30..1e30), 1..20),
        shape in proptest::sample::select(vec![Shape::Steps, Shape::Lines, Shape::Points]),
        is_log: bool,
    ) {
        let mut points: Vec<(f64, f64)> = points;
        points.push((1.0, 1.0));
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut chart = line(points);
        chart.series[0].shape = shape;
        if is_log {
            (chart.x.scale, chart.y.scale) = (Scale::Log, Scale::Log);
        }
        let svg = chart.svg(&Style::full_width()).unwrap();
        prop_assert!(!svg.contains("NaN") && !svg.contains("inf"));
        let path = svg.split("class=\"curve\" d=\"M").nth(1).unwrap();
        let (x, y) = path.split_once(['h', 'v', 'l', 'M', '"']).unwrap().0.split_once(' ').unwrap();
        let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
        prop_assert!((0.0..=960.0).contains(&x) && (0.0..=480.0).contains(&y), "{x} {y}");
    }
}
