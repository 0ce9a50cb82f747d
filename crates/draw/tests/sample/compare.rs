//! A page as a comparison of schemes makes it, out of made-up data. All of it is synthetic.

use lode_draw::*;

const GIB: f64 = 1073741824.0;
const SCHEMES: [(&str, f64); 4] = [("lru", 0.72), ("tica", 0.81), ("etica-full", 0.86), ("etica-npe", 0.84)];

/// Latency over cost for many configurations, and the front of the best.
pub fn scatter() -> LineChart {
    let mut chart = LineChart::new(
        "Latency and cost",
        "Each point is a configuration; the line joins those that none beats in both.",
        Axis::linear("Cost", Unit::Dollars),
        Axis::log("Mean latency", Unit::Microseconds),
    );
    // Fractional parts of multiples of an irrational number look scattered enough.
    let scattered = |at: usize| (at as f64 * 0.618).fract();
    let points: Vec<(f64, f64)> = (0..40)
        .map(|at| (100.0 + 10.0 * at as f64, 150.0 + 9e4 * (0.1 + scattered(at)) / (at as f64 + 3.0).powi(2)))
        .collect();
    let beaten = |one: &(f64, f64)| points.iter().any(|other| other.0 < one.0 && other.1 <= one.1);
    let best: Vec<_> = points.iter().copied().filter(|point| !beaten(point)).collect();
    let names = best.iter().enumerate().map(|(at, _)| format!("choice {}", at + 1)).collect();
    chart.series = vec![
        Series::new("on the front", Shape::Points, best.clone()).with_labels(names),
        Series::new("front", Shape::Steps, best),
        Series::new("other configurations", Shape::Points, points),
    ];
    chart
}

/// Schemes over sizes: one chart for each of hit ratio, latency and SSD writes.
fn measure(title: &str, y: Axis, value: impl Fn(f64, f64) -> f64) -> LineChart {
    let x = Axis::log("Cache size", Unit::Bytes);
    let mut chart = LineChart::new(title, "One line for each scheme, ± one standard error.", x, y);
    for (name, quality) in SCHEMES {
        let points: Vec<(f64, f64)> = (0..8)
            .map(|at| {
                let size = GIB * 2_f64.powi(at);
                let hits = quality * size / (size + 6.0 * GIB);
                (size, value(hits, size))
            })
            .collect();
        let errors = points.iter().map(|point| point.1 * 0.03).collect();
        chart.series.push(Series::new(name, Shape::Lines, points).with_errors(errors));
    }
    chart
}

/// Hit ratio of every scheme.
pub fn hit_ratios() -> LineChart {
    measure("Hit ratio", Axis::linear("Hit ratio", Unit::Ratio).reaching(0.0, 1.0), |hits, _| hits)
}

/// A page as a comparison of schemes makes it.
pub fn comparison_page() -> Page {
    let charts = vec![
        hit_ratios(),
        measure("Latency", Axis::linear("Mean latency", Unit::Microseconds), |hits, _| {
            90.0 + (1.0 - hits) * 5200.0
        }),
        measure("SSD writes", Axis::linear("Written", Unit::BytesPerDay), |hits, size| {
            size.sqrt() * 9e6 * (1.0 - hits)
        }),
    ];
    let column = |title: &str, cells| Column { title: title.to_owned(), cells };
    let quality = States::fixed(SCHEMES.iter().map(|scheme| Some(scheme.1)).collect());
    let latency =
        States::fixed(SCHEMES.iter().map(|scheme| Some(90.0 + (1.0 - scheme.1) * 5200.0)).collect());
    let table = Table {
        title: "At 128 GiB".to_owned(),
        columns: vec![
            column("Scheme", Cells::Text(SCHEMES.iter().map(|scheme| scheme.0.to_owned()).collect())),
            column("Hit ratio", Cells::Numbers(Unit::Ratio, quality)),
            column("Mean latency", Cells::Numbers(Unit::Microseconds, latency)),
        ],
    };
    Page {
        title: "Schemes side by side".to_owned(),
        subtitle: "Synthetic data: made up to show the page, measured nowhere.".to_owned(),
        sections: vec![
            Section {
                title: "Over cache sizes".to_owned(),
                items: vec![Item::Lines(charts), Item::Table(table)],
            },
            Section {
                title: "Choices".to_owned(),
                items: vec![Item::Lines(vec![scatter()]), Item::Bars(stacked())],
            },
        ],
        footer: "Synthetic example of lode-draw.".to_owned(),
        ..Page::default()
    }
}

/// Where requests are served from, for each scheme.
pub fn stacked() -> BarChart {
    let part = |name: &str, share: fn(f64) -> f64| BarPart {
        name: name.to_owned(),
        values: States::fixed(SCHEMES.iter().map(|scheme| Some(share(scheme.1))).collect()),
    };
    let panel =
        |title: &str, unit, arrangement, parts| Panel { title: title.to_owned(), unit, arrangement, parts };
    let served = vec![part("DRAM", |q| q * 0.4), part("SSD", |q| q * 0.6), part("Disk", |q| 1.0 - q)];
    let written = vec![part("Fills", |q| 4e12 * (1.0 - q)), part("Guest writes", |q| 9e11 * q)];
    BarChart {
        title: "Where requests go".to_owned(),
        description: "Shares of requests by the level that serves them, and what the SSD writes for it."
            .to_owned(),
        rows: SCHEMES.iter().map(|scheme| scheme.0.to_owned()).collect(),
        panels: vec![
            panel("Served from", Unit::Ratio, Arrangement::Stacked, served),
            panel("SSD writes", Unit::BytesPerDay, Arrangement::Grouped, written),
        ],
        row_series: None,
    }
}
