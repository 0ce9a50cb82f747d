//! A plan as a page with sliders, and as a picture. It must not compute shares.

use lode_draw::{
    Arrangement, Axis, BarChart, BarPart, Cells, Column, Factor, Figure, FigureValue, Item, LineChart,
    Markers, NumberField, Page, Panel, Section, Slider, States, Style, Table, Unit,
};
use lode_hardware::{Drive, SsdRating};
use lode_replay::InputReport;
use lode_types::Level;

use super::money::{about_replays, front_chart, front_table, replayed_table};
use super::{MAX_PAGE_VMS, lead, shown_vms, size_axis, staircase, subtitle};
use crate::error::PlanError;
use crate::heading::{Made, PROGRAM};
use crate::levels::title;
use crate::load::SsdKeeps;
use crate::recommend::RecommendedVm;
use crate::report::{LevelTotalsReport, OutcomeReport, SizeReport, VmSizeReport};

/// What is said of everything that moves, where it is not of what is recommended.
const NOT_RECOMMENDED: &str =
    "; sliders, and all that follows them, are of two levels, which are not recommended";

/// A page: curves, shares, sliders of the levels' sizes, wear, advice.
///
/// # Errors
/// [`PlanError::Draw`] for more than a page can show; [`PlanError::Request`] for a report that was not made for a page.
pub fn size_page(report: &SizeReport, made: &Made) -> Result<String, PlanError> {
    let Some(advice_at) = &report.advice_at else {
        return Err(PlanError::Request("This report was made without what a page of it shows".to_owned()));
    };
    let vms = shown(report);
    let view = View { report, vms: &vms, sliders: Sliders::of(report) };
    let has_times = InputReport::all_have_times(&report.inputs);
    let two_levels = report.recommended.is_of_two_levels();
    let advice = if two_levels { "Advice" } else { "Advice for two levels, which are not recommended" };
    let mut sections = vec![
        Section { title: "Recommended".to_owned(), items: recommended(report, &vms, two_levels) },
        Section {
            title: advice.to_owned(),
            items: vec![Item::Sentences(view.sliders.by_both(|dram, ssd| advice_at[dram][ssd].clone()))],
        },
    ];
    // Without VMs, or without a level, there is nothing to draw.
    if !vms.is_empty() && view.levels().next().is_some() {
        sections.push(Section { title: "Shares".to_owned(), items: vec![Item::Bars(view.bars())] });
        sections.push(Section { title: "Hits by size".to_owned(), items: vec![Item::Lines(view.charts())] });
    }
    sections.push(Section { title: "VMs".to_owned(), items: vec![Item::Table(view.table())] });
    if !report.replayed.is_empty() {
        let items = vec![
            Item::Sentences(States::fixed(about_replays(report))),
            Item::Table(replayed_table(report, has_times)),
        ];
        sections.push(Section { title: "Replayed".to_owned(), items });
    }
    if let Some(front) = &report.front {
        let chart = front_chart(front, report.levels);
        // Without an access no pair has a latency, and there is nothing to draw.
        let drawn = (!chart.series.is_empty()).then(|| Item::Lines(vec![chart]));
        let items =
            drawn.into_iter().chain([Item::Table(front_table(front, report.levels, has_times))]).collect();
        sections.insert(2, Section { title: "What money buys".to_owned(), items });
    }
    let page = Page {
        title: "Cache plan".to_owned(),
        lead: lead(Some(report.recommended.sentence.clone()), made),
        subtitle: subtitle(&report.inputs, &(view.what() + if two_levels { "" } else { NOT_RECOMMENDED })),
        sliders: view.sliders.list(),
        // Nothing else depends on them.
        fields: if view.written_per_day().is_some() { wear_fields(report.ssd_rating) } else { Vec::new() },
        figures: view.figures(),
        sections,
        footer: PROGRAM.to_owned(),
    };
    Ok(page.html()?)
}

/// What to serve: a sentence, why, and what each VM has of it as it was replayed. What there is to say of two levels stands
/// where the sliders of these are.
fn recommended(report: &SizeReport, vms: &[usize], two_levels: bool) -> Vec<Item> {
    let what = &report.recommended;
    let mut sentences = vec![format!("{}: {}.", what.called, what.reason)];
    if !two_levels {
        sentences.extend_from_slice(&report.advice);
    }
    let vms = || vms.iter().map(|&vm| &what.vms[vm]);
    let numbers = |title: &str, unit: Unit, value: &dyn Fn(&RecommendedVm) -> Option<f64>| Column {
        title: title.to_owned(),
        cells: Cells::Numbers(unit, States::fixed(vms().map(value).collect())),
    };
    let mut columns = vec![Column {
        title: "VM".to_owned(),
        cells: Cells::Text(vms().map(|vm| vm.name.clone()).collect()),
    }];
    for level in Level::SIZED.into_iter().filter(|level| what.levels.of(*level) > 0) {
        let bytes = move |vm: &RecommendedVm| Some(vm.share.of(level) as f64 * report.block_bytes as f64);
        columns.push(numbers(title(level), Unit::Bytes, &bytes));
    }
    columns.push(numbers("Hits of block reads", Unit::Ratio, &|vm| vm.read_hit_ratio));
    columns.push(numbers("Latency of a request", Unit::Microseconds, &|vm| vm.mean_latency_us));
    let table = Table { title: "Every VM, replayed".to_owned(), columns };
    let replayed = what.mean_latency_us.map(|_| Item::Table(table));
    [Item::Sentences(States::fixed(sentences))].into_iter().chain(replayed).collect()
}

/// The shares as SVG, for a paper.
///
/// # Errors
/// [`PlanError::Draw`] for more than a page can show.
pub fn size_picture(report: &SizeReport) -> Result<String, PlanError> {
    let vms = shown(report);
    let view = View { report, vms: &vms, sliders: Sliders::none() };
    Ok(view.bars().svg(&Style::full_width().with_note(subtitle(&report.inputs, &view.what())))?)
}

/// The busiest VMs, those with the largest shares first, as what stands first has colours.
fn shown(report: &SizeReport) -> Vec<usize> {
    let mut vms = shown_vms(report.vms.iter().map(|vm| vm.outcome.block_reads + vm.outcome.block_writes));
    let share = |vm: usize| Level::SIZED.map(|level| report.vms[vm].share.of(level)).iter().sum::<u64>();
    vms.sort_by_key(|&vm| std::cmp::Reverse(share(vm)));
    vms
}

/// What an SSD is rated for, for the reader to change: at first as the devices' profile says, to four digits, so that the page has
/// one life for the same writes.
fn wear_fields(rating: SsdRating) -> Vec<NumberField> {
    let [writes, years] = [rating.drive_writes_per_day, rating.years].map(four_digits);
    vec![
        field("Drive writes a day", writes, writes.min(0.01), writes.max(100.0), 0.1, ""),
        field("Rated for", years, years.min(0.5), years.max(20.0), 0.5, "years"),
    ]
}

/// A number as it fits a field.
fn four_digits(number: f64) -> f64 {
    format!("{number:.3e}").parse().unwrap_or(number)
}

fn field(label: &str, value: f64, least: f64, most: f64, step: f64, suffix: &str) -> NumberField {
    NumberField { label: label.to_owned(), value, least, most, step, suffix: suffix.to_owned() }
}

/// Which level has which slider.
#[derive(Clone, Copy)]
struct Sliders<'a> {
    /// By [`Level::index`].
    of_level: [Option<(usize, &'a LevelTotalsReport)>; 2],
}

impl<'a> Sliders<'a> {
    fn none() -> Sliders<'a> {
        Sliders { of_level: [None, None] }
    }

    fn of(report: &'a SizeReport) -> Sliders<'a> {
        let mut count = 0;
        let of_level = [&report.totals.dram, &report.totals.ssd].map(|totals| {
            (totals.sizes_bytes.len() > 1).then(|| {
                count += 1;
                (count - 1, totals)
            })
        });
        Sliders { of_level }
    }

    fn list(&self) -> Vec<Slider> {
        let slider = |(level, totals): (Level, &LevelTotalsReport)| Slider {
            label: format!("Total {}", title(level)),
            unit: Unit::Bytes,
            positions: totals.sizes_bytes.iter().map(|&bytes| bytes as f64).collect(),
            start: totals.asked,
        };
        let levels = Level::SIZED.into_iter().zip(&self.of_level);
        levels.filter_map(|(level, found)| found.map(|(_, totals)| slider((level, totals)))).collect()
    }

    /// A value for each position of the level's slider; without one, `fixed`.
    fn by_level<T>(
        &self,
        level: Level,
        value: impl Fn(usize, &LevelTotalsReport) -> T,
        fixed: impl FnOnce() -> T,
    ) -> States<T> {
        match self.of_level[level.index()] {
            Some((slider, totals)) => {
                States::by(slider, (0..totals.sizes_bytes.len()).map(|at| value(at, totals)).collect())
            }
            None => States::fixed(fixed()),
        }
    }

    /// A value for each pair of positions, from indices of host memory and SSD.
    fn by_both<T>(&self, value: impl Fn(usize, usize) -> T) -> States<T> {
        match self.of_level {
            [Some((dram, drams)), Some((ssd, ssds))] => {
                let pairs = (0..drams.sizes_bytes.len())
                    .flat_map(|dram| (0..ssds.sizes_bytes.len()).map(move |ssd| (dram, ssd)));
                States::by_two((dram, ssd), pairs.map(|(dram, ssd)| value(dram, ssd)).collect())
            }
            [Some((dram, drams)), None] => {
                States::by(dram, (0..drams.sizes_bytes.len()).map(|at| value(at, 0)).collect())
            }
            [None, Some((ssd, ssds))] => {
                States::by(ssd, (0..ssds.sizes_bytes.len()).map(|at| value(0, at)).collect())
            }
            [None, None] => States::fixed(value(0, 0)),
        }
    }
}

struct View<'a> {
    report: &'a SizeReport,
    vms: &'a [usize],
    sliders: Sliders<'a>,
}

impl View<'_> {
    fn what(&self) -> String {
        let report = self.report;
        let shown = if report.vms.len() > MAX_PAGE_VMS {
            format!("; the {MAX_PAGE_VMS} busiest of {} VMs", report.vms.len())
        } else {
            String::new()
        };
        format!(
            "curves {}, of an SSD that keeps {}, objective {}, devices '{}'{shown}",
            report.method,
            report.ssd_keeps.in_words(),
            report.objective,
            report.devices
        )
    }

    fn vms(&self) -> impl Iterator<Item = &VmSizeReport> {
        self.vms.iter().map(|&vm| &self.report.vms[vm])
    }

    fn bytes(&self, blocks: u64) -> f64 {
        blocks as f64 * self.report.block_bytes as f64
    }

    /// Bytes of a level that the VMs shown have.
    fn shares(&self, level: Level) -> States<Vec<Option<f64>>> {
        let at_position = |at: usize, totals: &LevelTotalsReport| {
            self.vms.iter().map(|&vm| Some(self.bytes(totals.shares_blocks[at][vm]))).collect()
        };
        let now = || self.vms().map(|vm| Some(self.bytes(vm.share.of(level)))).collect();
        self.sliders.by_level(level, at_position, now)
    }

    fn levels(&self) -> impl Iterator<Item = Level> {
        let report = self.report;
        let there = move |level: &Level| report.levels.of(*level) > 0;
        Level::SIZED.into_iter().filter(there)
    }

    /// Whether a VM gets anything of either level, at the sizes asked for or at any other.
    fn is_given(&self, vm: usize) -> bool {
        let totals = &self.report.totals;
        let elsewhere = [&totals.dram, &totals.ssd].into_iter().flat_map(|totals| &totals.shares_blocks);
        elsewhere.into_iter().any(|shares| shares[vm] > 0)
            || Level::SIZED.iter().any(|&level| self.report.vms[vm].share.of(level) > 0)
    }

    /// The shares of the VMs that have any; of all, if none has. Each has the colour of its curve.
    fn bars(&self) -> BarChart {
        let given: Vec<usize> = (0..self.vms.len()).filter(|&at| self.is_given(self.vms[at])).collect();
        if given.is_empty() {
            return self.bars_of((0..self.vms.len()).collect());
        }
        let vms: Vec<usize> = given.iter().map(|&at| self.vms[at]).collect();
        View { report: self.report, vms: &vms, sliders: self.sliders }.bars_of(given)
    }

    /// The shares of all VMs, whose curves are the series with these numbers.
    fn bars_of(&self, series: Vec<usize>) -> BarChart {
        let panel = |level: Level| Panel {
            title: title(level).to_owned(),
            unit: Unit::Bytes,
            arrangement: Arrangement::Grouped,
            parts: vec![BarPart { name: "Share".to_owned(), values: self.shares(level) }],
        };
        // A level that nobody gets has no scale; where nobody gets any, all are shown.
        let is_given =
            |level: &Level| self.shares(*level).values().iter().flatten().flatten().any(|&bytes| bytes > 0.0);
        let mut levels: Vec<Level> = self.levels().filter(is_given).collect();
        if levels.is_empty() {
            levels = self.levels().collect();
        }
        BarChart {
            title: "Shares of the VMs".to_owned(),
            description: "What each VM gets of each level".to_owned(),
            rows: self.vms().map(|vm| vm.name.clone()).collect(),
            panels: levels.into_iter().map(panel).collect(),
            row_series: Some(series),
        }
    }

    fn charts(&self) -> Vec<LineChart> {
        self.levels().map(|level| self.chart(level)).collect()
    }

    fn chart(&self, level: Level) -> LineChart {
        let (policy, name) = match (level, self.report.ssd_keeps) {
            (Level::Dram, _) => ("read-only", "DRAM"),
            (_, SsdKeeps::Written) => ("write-back, write-only", "SSD"),
            (_, SsdKeeps::Accessed) => ("write-back, behind each VM's share of DRAM", "SSD"),
        };
        let mut chart = LineChart::new(
            format!("{name}, {policy}"),
            format!(
                "Share of all block accesses that {name} serves by its size, for each VM, with its share marked"
            ),
            size_axis("Size", self.report.block_bytes),
            Axis::linear("Hits of all accesses", Unit::Ratio),
        );
        for vm in self.vms() {
            let curve = if level == Level::Dram { &vm.dram_curve } else { &vm.ssd_curve };
            chart.series.push(staircase(&vm.name, curve, self.report.block_bytes));
        }
        let marked =
            |shares: Vec<f64>| shares.into_iter().map(|bytes| (bytes > 0.0).then_some(bytes)).collect();
        let x = self.sliders.by_level(
            level,
            |at, totals| {
                marked(self.vms.iter().map(|&vm| self.bytes(totals.shares_blocks[at][vm])).collect())
            },
            || vec![None; self.vms.len()],
        );
        chart.markers = Some(Markers { name: "Share".to_owned(), x });
        chart
    }

    fn figures(&self) -> Vec<Figure> {
        let outcomes = &self.report.totals.outcomes;
        let number = |value: fn(&OutcomeReport) -> Option<f64>| {
            FigureValue::Given(self.sliders.by_both(|dram, ssd| value(&outcomes[dram][ssd]).unwrap_or(0.0)))
        };
        let figure = |label: &str, unit: Unit, value: FigureValue, note: &str| Figure {
            label: label.to_owned(),
            unit,
            value,
            note: note.to_owned(),
        };
        let mut figures = vec![
            figure(
                "Reads served by the cache",
                Unit::Ratio,
                number(|outcome| outcome.read_hit_ratio),
                "from the curves",
            ),
            figure(
                "Mean latency of a block access",
                Unit::Microseconds,
                number(|outcome| outcome.mean_latency_us),
                "each access alone, on disk at random",
            ),
        ];
        let prices = &self.report.totals.cost_usd;
        let price = FigureValue::Given(self.sliders.by_both(|dram, ssd| prices[dram][ssd]));
        let note = if self.report.drive.is_some() { "the SSD as whole drives" } else { "" };
        figures.push(figure("Price of both levels", Unit::Dollars, price, note));
        if let Some(per_day) = self.written_per_day() {
            let size = self.sliders.by_level(
                Level::Ssd,
                |at, totals| self.bought_bytes(totals.sizes_bytes[at]),
                || self.bought_bytes(self.report.levels.ssd_bytes),
            );
            let years = FigureValue::Quotient {
                over: vec![Factor::Given(size), Factor::Field(0), Factor::Field(1)],
                under: vec![Factor::Given(per_day.clone())],
            };
            let note = match self.report.ssd_keeps {
                SsdKeeps::Written => "at most: all writes of VMs with a share",
                SsdKeeps::Accessed => "at most: all writes of VMs with a share, and what their reads miss",
            };
            figures.push(figure("Written to the SSD", Unit::BytesPerDay, FigureValue::Given(per_day), note));
            let note = "at least, at this rate";
            figures.push(figure("SSD life", Unit::Years, years, note));
        }
        figures
    }

    /// What is bought for so much SSD, and wears: whole drives.
    fn bought_bytes(&self, ssd_bytes: u64) -> f64 {
        let whole = |drive: &Drive| drive.count(ssd_bytes).saturating_mul(drive.capacity_bytes());
        self.report.drive.as_ref().map_or(ssd_bytes, whole) as f64
    }

    /// Bytes written to the SSD a day; none without an SSD or a span.
    fn written_per_day(&self) -> Option<States<f64>> {
        let per_day = self.report.totals.ssd_bytes_per_day.as_ref()?;
        if self.report.levels.ssd_bytes == 0 {
            return None;
        }
        Some(self.sliders.by_level(
            Level::Ssd,
            |at, _| per_day[at],
            || per_day.first().copied().unwrap_or(0.0),
        ))
    }

    fn table(&self) -> Table {
        let fixed = |title: &str, unit: Unit, value: &dyn Fn(&VmSizeReport) -> Option<f64>| Column {
            title: title.to_owned(),
            cells: Cells::Numbers(unit, States::fixed(self.vms().map(value).collect())),
        };
        let mut columns = vec![
            Column {
                title: "VM".to_owned(),
                cells: Cells::Text(self.vms().map(|vm| vm.name.clone()).collect()),
            },
            fixed("Requests", Unit::Count, &|vm| Some(vm.requests as f64)),
        ];
        for level in self.levels() {
            let shares = self.sliders.by_level(
                level,
                |at, totals| {
                    self.vms.iter().map(|&vm| Some(self.bytes(totals.shares_blocks[at][vm]))).collect()
                },
                || vec![None; self.vms.len()],
            );
            columns
                .push(Column { title: title(level).to_owned(), cells: Cells::Numbers(Unit::Bytes, shares) });
            let useful = move |vm: &VmSizeReport| Some(self.bytes(vm.demand.of(level)));
            columns.push(fixed(&format!("{} useful", title(level)), Unit::Bytes, &useful));
        }
        columns.push(self.outcome_column("Hits of block reads", Unit::Ratio, |one| one.read_hit_ratio));
        let latency = "Latency of a block access";
        columns.push(self.outcome_column(latency, Unit::Microseconds, |one| one.mean_latency_us));
        let of_asked = "; hits and latency are those at the sizes asked for, as there are too many VMs";
        let title = if self.report.outcomes_at.is_some() { "" } else { of_asked };
        Table { title: format!("Every VM, by the curves{title}"), columns }
    }

    /// What each VM would see: at the sliders' sizes, where the report has that.
    fn outcome_column(&self, title: &str, unit: Unit, value: fn(&OutcomeReport) -> Option<f64>) -> Column {
        let states = match &self.report.outcomes_at {
            Some(at) => {
                let of_vms = |dram: usize, ssd: usize| -> Vec<Option<f64>> {
                    self.vms.iter().map(|&vm| value(&at[dram][ssd][vm])).collect()
                };
                self.sliders.by_both(of_vms)
            }
            None => States::fixed(self.vms().map(|vm| value(&vm.outcome)).collect()),
        };
        Column { title: title.to_owned(), cells: Cells::Numbers(unit, states) }
    }
}
