//! A page as the planner makes it, out of made-up data. All of it is synthetic.

use lode_draw::*;

const GIB: f64 = 1073741824.0;
const POSITIONS: usize = 32;
/// Sliders of the planner's page.
const DRAM: usize = 0;
const SSD: usize = 1;

/// What one made-up VM looks like: its curve rises to `peak` with half of it at `knee_bytes`.
pub struct Vm {
    pub name: String,
    peak: f64,
    knee_bytes: f64,
}

impl Vm {
    pub fn hit_ratio(&self, bytes: f64) -> f64 {
        self.peak * bytes / (bytes + self.knee_bytes)
    }

    fn curve(&self, points: usize) -> Vec<(f64, f64)> {
        let last = 64.0 * GIB;
        let size = |at: usize| (last / 4096.0) * 4096_f64.powf(at as f64 / (points - 1) as f64);
        std::iter::once((0.0, 0.0))
            .chain((0..points).map(|at| (size(at), self.hit_ratio(size(at)))))
            .collect()
    }
}

/// VMs with a few busy ones first, from one fixed sequence.
pub fn vms(count: usize) -> Vec<Vm> {
    let mut seed = 12345_u64;
    let mut draw = || {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) as f64 / (1_u64 << 31) as f64
    };
    let vm = |at: usize| Vm {
        name: format!("vm{at:02}"),
        peak: 0.35 + 0.6 * draw(),
        knee_bytes: GIB * 0.02 * 2000_f64.powf(draw()) / (1.0 + at as f64 / 8.0),
    };
    (0..count).map(vm).collect()
}

/// Total sizes from 1/32 of `most_bytes` up.
fn totals(most_bytes: f64) -> Vec<f64> {
    (0..POSITIONS).map(|at| most_bytes * 2_f64.powf((at as f64 - 31.0) / 6.2)).collect()
}

/// A division by the square root of the knees, which only looks like the planner's.
fn shares(vms: &[Vm], total_bytes: f64) -> Vec<f64> {
    let weights: f64 = vms.iter().map(|vm| vm.knee_bytes.sqrt()).sum();
    vms.iter().map(|vm| total_bytes * vm.knee_bytes.sqrt() / weights).collect()
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

/// A page as the planner makes it.
pub fn planner_page(count: usize, points: usize) -> Page {
    let vms = vms(count);
    let (drams, ssds) = (totals(GIB * count as f64), totals(32.0 * GIB * count as f64));
    let by_dram: Vec<Vec<f64>> = drams.iter().map(|&total| shares(&vms, total)).collect();
    let by_ssd: Vec<Vec<f64>> = ssds.iter().map(|&total| shares(&vms, total)).collect();
    let hits = |dram: &[f64], ssd: &[f64]| {
        mean(vms.iter().zip(dram.iter().zip(ssd)).map(|(vm, (dram, ssd))| vm.hit_ratio(dram + ssd)))
    };
    let both = by_dram.iter().flat_map(|dram| by_ssd.iter().map(move |ssd| hits(dram, ssd))).collect();
    let written: Vec<f64> =
        ssds.iter().map(|total| 40.0 * GIB * count as f64 * (total / ssds[0]).powf(-0.3)).collect();
    let mut page = Page {
        title: format!("How much cache for {count} VMs"),
        subtitle: "Synthetic data: made up to show the page, measured nowhere.".to_owned(),
        sliders: vec![
            Slider { label: "Total DRAM".to_owned(), unit: Unit::Bytes, positions: drams.clone(), start: 16 },
            Slider { label: "Total SSD".to_owned(), unit: Unit::Bytes, positions: ssds.clone(), start: 16 },
        ],
        fields: vec![
            field("Drive writes a day (DWPD)", 1.0, 0.01, 100.0, 0.1, ""),
            field("Warranty", 5.0, 1.0, 20.0, 1.0, "years"),
        ],
        footer: "Synthetic example of lode-draw.".to_owned(),
        ..Page::default()
    };
    page.figures = vec![
        given("Hit ratio, mean of the VMs", Unit::Ratio, States::by_two((DRAM, SSD), both)),
        given("SSD writes", Unit::BytesPerDay, States::by(SSD, written.clone())),
        wear(&ssds, written),
    ];
    page.sections = vec![
        Section {
            title: "Advice".to_owned(),
            items: vec![Item::Sentences(States::by(SSD, advice(&vms, &by_ssd)))],
        },
        Section { title: "Curves".to_owned(), items: vec![Item::Lines(vec![curves(&vms, &by_ssd, points)])] },
        Section {
            title: "Division".to_owned(),
            items: vec![Item::Bars(division(&vms, by_dram.clone(), by_ssd.clone()))],
        },
        Section { title: "VMs".to_owned(), items: vec![Item::Table(table(&vms, by_dram, by_ssd))] },
    ];
    page
}

fn field(label: &str, value: f64, least: f64, most: f64, step: f64, suffix: &str) -> NumberField {
    NumberField { label: label.to_owned(), value, least, most, step, suffix: suffix.to_owned() }
}

fn given(label: &str, unit: Unit, states: States<f64>) -> Figure {
    Figure { label: label.to_owned(), unit, value: FigureValue::Given(states), note: String::new() }
}

/// Years until the drive's endurance is used up: DWPD times capacity times warranty over what is written a day.
fn wear(ssds: &[f64], written: Vec<f64>) -> Figure {
    let over = vec![Factor::Field(0), Factor::Field(1), Factor::Given(States::by(SSD, ssds.to_vec()))];
    let under = vec![Factor::Given(States::by(SSD, written))];
    Figure {
        label: "SSD wears out after".to_owned(),
        unit: Unit::Years,
        value: FigureValue::Quotient { over, under },
        note: "DWPD × capacity × warranty ÷ bytes written a day".to_owned(),
    }
}

fn advice(vms: &[Vm], by_ssd: &[Vec<f64>]) -> Vec<Vec<String>> {
    let of_vm = |(vm, &bytes): (&Vm, &f64)| {
        let gain = vm.hit_ratio(2.0 * bytes) - vm.hit_ratio(bytes);
        let (size, gain) = (Unit::Bytes.show(bytes), Unit::Ratio.show(gain));
        format!("{} gains {gain} of its accesses as hits from {size} more.", vm.name)
    };
    by_ssd.iter().map(|sizes| vms.iter().zip(sizes).take(3).map(of_vm).collect()).collect()
}

fn curves(vms: &[Vm], by_ssd: &[Vec<f64>], points: usize) -> LineChart {
    let mut chart = LineChart::new(
        "Hit ratio by cache size",
        "One staircase for each VM; the mark shows the SSD it is given.",
        Axis::log("Cache size", Unit::Bytes),
        Axis::linear("Hit ratio", Unit::Ratio).reaching(0.0, 1.0),
    );
    chart.series =
        vms.iter().map(|vm| Series::new(vm.name.clone(), Shape::Steps, vm.curve(points))).collect();
    let chosen = by_ssd.iter().map(|sizes| sizes.iter().copied().map(Some).collect()).collect();
    chart.markers = Some(Markers { name: "SSD given".to_owned(), x: States::by(SSD, chosen) });
    chart
}

fn division(vms: &[Vm], by_dram: Vec<Vec<f64>>, by_ssd: Vec<Vec<f64>>) -> BarChart {
    let known = |values: Vec<f64>| values.into_iter().map(Some).collect();
    let panel = |title: &str, slider, values: Vec<Vec<f64>>| Panel {
        title: title.to_owned(),
        unit: Unit::Bytes,
        arrangement: Arrangement::Grouped,
        parts: vec![BarPart {
            name: title.to_owned(),
            values: States::by(slider, values.into_iter().map(known).collect()),
        }],
    };
    BarChart {
        title: "Cache of each VM".to_owned(),
        description: "DRAM and SSD that each VM is given at the chosen totals.".to_owned(),
        rows: vms.iter().map(|vm| vm.name.clone()).collect(),
        panels: vec![panel("DRAM", DRAM, by_dram), panel("SSD", SSD, by_ssd)],
        row_series: None,
    }
}

fn table(vms: &[Vm], by_dram: Vec<Vec<f64>>, by_ssd: Vec<Vec<f64>>) -> Table {
    let some = |states: Vec<Vec<f64>>| {
        states.into_iter().map(|state| state.into_iter().map(Some).collect()).collect()
    };
    let column = |title: &str, cells| Column { title: title.to_owned(), cells };
    let ratios =
        by_ssd.iter().map(|sizes| vms.iter().zip(sizes).map(|(vm, &b)| Some(vm.hit_ratio(b))).collect());
    // The last VM has never been measured.
    let peak = |at: usize| (at + 1 < vms.len()).then(|| vms[at].peak);
    Table {
        title: "All VMs".to_owned(),
        columns: vec![
            column("VM", Cells::Text(vms.iter().map(|vm| vm.name.clone()).collect())),
            column("Hit ratio on the SSD", Cells::Numbers(Unit::Ratio, States::by(SSD, ratios.collect()))),
            column(
                "Best hit ratio",
                Cells::Numbers(Unit::Ratio, States::fixed((0..vms.len()).map(peak).collect())),
            ),
            column("DRAM", Cells::Numbers(Unit::Bytes, States::by(DRAM, some(by_dram)))),
            column("SSD", Cells::Numbers(Unit::Bytes, States::by(SSD, some(by_ssd)))),
        ],
    }
}
