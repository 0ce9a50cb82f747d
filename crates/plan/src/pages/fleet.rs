//! A fleet as a page: what its volumes need, what one more GiB a host buys, what it costs and wears. It must not know how the
//! rows came about, and is the same whatever their order.

use lode_draw::{
    Axis, Cells, Column, Figure, FigureValue, Item, LineChart, Page, Section, Series, Shape, States, Table,
    Unit,
};

use super::{lead, size_axis};
use crate::error::PlanError;
use crate::front::Prices;
use crate::heading::{Made, PROGRAM};

/// What a volume's curve tells.
#[derive(Clone, Debug)]
pub struct FleetVolume {
    /// Its trace and its name.
    pub name: String,
    /// Requests to it.
    pub requests: u64,
    /// Bytes that they read.
    pub read_bytes: u64,
    /// Bytes that they write.
    pub written_bytes: u64,
    /// Bytes of the smallest cache that has all hits there are to have.
    pub needed_bytes: u64,
    /// Hits of all accesses with it, 0 to 1; none without accesses.
    pub hit_ratio: Option<f64>,
    /// Whether a part of its blocks was followed.
    pub is_sampled: bool,
}

/// A host whose cache was divided between its volumes.
#[derive(Clone, Debug)]
pub struct FleetHost {
    /// Its name.
    pub name: String,
    /// Volumes on it.
    pub volumes: u64,
    /// Bytes of its cache.
    pub cache_bytes: u64,
    /// Accesses to its volumes.
    pub accesses: u64,
    /// Those that hit.
    pub hits: u64,
    /// Those that would hit with a GiB more.
    pub hits_with_gib_more: u64,
}

/// A host that was replayed.
#[derive(Clone, Debug)]
pub struct FleetReplay {
    /// Its name.
    pub name: String,
    /// Volumes on it.
    pub volumes: u64,
    /// Hits of the blocks read, 0 to 1; none without reads.
    pub read_hit_ratio: Option<f64>,
    /// Mean time of a request, in microseconds; none without requests.
    pub mean_latency_us: Option<f64>,
    /// Seconds that the host's traces take; none without times.
    pub span_s: Option<f64>,
    /// Bytes written to its SSD in that time.
    pub ssd_written_bytes: u64,
    /// Years that its SSD lasts; none where nothing is written, or without times.
    pub ssd_life_years: Option<f64>,
    /// US dollars of its levels.
    pub cost_usd: f64,
}

/// All that there is to show of a fleet.
#[derive(Clone, Debug)]
pub struct Fleet {
    /// The heading.
    pub title: String,
    /// Whose prices count.
    pub devices: String,
    /// These.
    pub prices: Prices,
    /// Every volume.
    pub volumes: Vec<FleetVolume>,
    /// Hosts whose cache was divided; none where that was not asked for.
    pub hosts: Vec<FleetHost>,
    /// Hosts that were replayed; none where that was not asked for.
    pub replays: Vec<FleetReplay>,
}

const GIB: f64 = (1_u64 << 30) as f64;
const DAY_S: f64 = 86_400.0;

/// A block of a cache, which is the least that a volume can need.
const LEAST_NEED_BYTES: u64 = 4096;

/// Parts of all for which a table says what so many have at most.
const PARTS: [f64; 5] = [0.1, 0.5, 0.9, 0.99, 1.0];

/// Volumes or hosts that a table names.
const MOST_NAMED: usize = 50;

/// Steps of a curve over all volumes or hosts.
const MOST_STEPS: usize = 1000;

/// A page of the whole fleet.
///
/// # Errors
/// [`PlanError::Draw`] for numbers that cannot be drawn.
pub fn fleet_page(fleet: &Fleet, made: &Made) -> Result<String, PlanError> {
    let mut fleet = fleet.clone();
    fleet.volumes.sort_by(|one, other| one.name.cmp(&other.name));
    fleet.hosts.sort_by(|one, other| one.name.cmp(&other.name));
    fleet.replays.sort_by(|one, other| one.name.cmp(&other.name));
    let fleet = &fleet;
    let mut sections = Vec::new();
    if !fleet.volumes.is_empty() {
        sections.push(Section { title: "What volumes need".to_owned(), items: needs(fleet) });
    }
    if !fleet.hosts.is_empty() {
        sections.push(Section { title: "What one more GiB a host buys".to_owned(), items: more(fleet) });
    }
    if !fleet.replays.is_empty() {
        sections.push(Section { title: "What the fleet costs and wears".to_owned(), items: wear(fleet) });
    }
    let page = Page {
        title: fleet.title.clone(),
        lead: lead(Some(in_short(fleet)), made),
        subtitle: subtitle(fleet),
        figures: figures(fleet),
        sections,
        footer: PROGRAM.to_owned(),
        ..Page::default()
    };
    Ok(page.html()?)
}

/// The fleet in one sentence.
fn in_short(fleet: &Fleet) -> String {
    let count = Unit::Count.show(fleet.volumes.len() as f64);
    let needed = sorted(fleet.volumes.iter().map(|volume| volume.needed_bytes as f64));
    let Some(half) = quantile(&needed, 0.5) else { return "There are no volumes.".to_owned() };
    let mut text = format!(
        "{} of cache would give {count} volumes every hit there is to have; half of them need {} or less",
        Unit::Bytes.show(needed.iter().sum()),
        Unit::Bytes.show(half)
    );
    if let Some([now, then]) = hits_now_and_then(fleet) {
        let hosts = Unit::Count.show(fleet.hosts.len() as f64);
        text += &format!(
            "; {hosts} hosts serve {} of all accesses from their caches, and {} with a GiB more each",
            Unit::Ratio.show(now),
            Unit::Ratio.show(then)
        );
    }
    text + "."
}

fn subtitle(fleet: &Fleet) -> String {
    let sum = |value: fn(&FleetVolume) -> u64| fleet.volumes.iter().map(|volume| value(volume) as f64).sum();
    let sampled = fleet.volumes.iter().filter(|volume| volume.is_sampled).count();
    let mut text = format!(
        "{} requests, {} read, {} written; prices of devices '{}'",
        Unit::Count.show(sum(|volume| volume.requests)),
        Unit::Bytes.show(sum(|volume| volume.read_bytes)),
        Unit::Bytes.show(sum(|volume| volume.written_bytes)),
        fleet.devices
    );
    if sampled > 0 {
        let count = Unit::Count.show(sampled as f64);
        text += &format!(
            "; of {count} volumes a part of the blocks was followed, so that their curves are estimates"
        );
    }
    text
}

/// Hits of all accesses: of the caches that there are, and with a GiB more a host.
fn hits_now_and_then(fleet: &Fleet) -> Option<[f64; 2]> {
    let sum =
        |value: fn(&FleetHost) -> u64| fleet.hosts.iter().map(|host| u128::from(value(host))).sum::<u128>();
    let accesses = sum(|host| host.accesses);
    let of_all = |hits: u128| hits as f64 / accesses as f64;
    (accesses > 0).then(|| [of_all(sum(|host| host.hits)), of_all(sum(|host| host.hits_with_gib_more))])
}

fn figures(fleet: &Fleet) -> Vec<Figure> {
    let figure = |label: &str, unit: Unit, value: f64, note: &str| Figure {
        label: label.to_owned(),
        unit,
        value: FigureValue::Given(States::fixed(value)),
        note: note.to_owned(),
    };
    let needed: f64 = fleet.volumes.iter().map(|volume| volume.needed_bytes as f64).sum();
    let Prices { dram_usd_per_gib, ssd_usd_per_gib, .. } = fleet.prices;
    let mut figures = vec![
        figure("Volumes", Unit::Count, fleet.volumes.len() as f64, ""),
        figure("Cache for every hit", Unit::Bytes, needed, "of all volumes together"),
        figure("That as DRAM", Unit::Dollars, needed / GIB * dram_usd_per_gib, "by the price of a GiB"),
        figure("That as SSD", Unit::Dollars, needed / GIB * ssd_usd_per_gib, "by the price of a GiB"),
    ];
    if let Some([now, then]) = hits_now_and_then(fleet) {
        figures.push(figure("Accesses that hit", Unit::Ratio, now, "by the curves"));
        figures.push(figure("With a GiB more a host", Unit::Ratio, then, "divided anew"));
    }
    if !fleet.replays.is_empty() {
        let cost = fleet.replays.iter().map(|host| host.cost_usd).sum();
        figures.push(figure("Hosts' levels", Unit::Dollars, cost, "of those replayed"));
    }
    figures
}

fn needs(fleet: &Fleet) -> Vec<Item> {
    let volumes = &fleet.volumes;
    let values = |value: &dyn Fn(&FleetVolume) -> Option<f64>| sorted(volumes.iter().filter_map(value));
    let needed = values(&|volume| Some(volume.needed_bytes as f64));
    let mut chart = LineChart::new(
        "Volumes by need",
        "Share of the volumes that need at most so much: the smallest cache that has all the hits there are to have",
        size_axis("Need of a volume", LEAST_NEED_BYTES),
        Axis::linear("Share of volumes", Unit::Ratio).reaching(0.0, 1.0),
    );
    chart.series.push(Series::new("Volumes", Shape::Steps, parts_up_to(&needed)));
    let spread = quantiles(
        "What volumes have at most",
        "Volumes",
        vec![
            ("Need", Unit::Bytes, needed),
            ("Hits with it", Unit::Ratio, values(&|volume| volume.hit_ratio)),
            ("Read", Unit::Bytes, values(&|volume| Some(volume.read_bytes as f64))),
            ("Written", Unit::Bytes, values(&|volume| Some(volume.written_bytes as f64))),
        ],
    );
    let most = first(volumes, |volume| std::cmp::Reverse(volume.needed_bytes));
    let mut table = Rows::of("Volume", "Volumes that need most", &most, volumes.len(), |volume| &volume.name);
    table.number("Need", Unit::Bytes, |volume| Some(volume.needed_bytes as f64));
    table.number("Hits with it", Unit::Ratio, |volume| volume.hit_ratio);
    table.number("Requests", Unit::Count, |volume| Some(volume.requests as f64));
    table.number("Read", Unit::Bytes, |volume| Some(volume.read_bytes as f64));
    table.number("Written", Unit::Bytes, |volume| Some(volume.written_bytes as f64));
    vec![Item::Lines(vec![chart]), Item::Table(spread), Item::Table(table.table)]
}

fn more(fleet: &Fleet) -> Vec<Item> {
    let hosts = &fleet.hosts;
    let share = |hits: u64, host: &FleetHost| (host.accesses > 0).then(|| hits as f64 / host.accesses as f64);
    let mut chart = LineChart::new(
        "Hosts by hits",
        "Share of the hosts of whose accesses at most so many hit: with the caches that they have, and with a GiB more",
        Axis::linear("Hits of a host's accesses", Unit::Ratio),
        Axis::linear("Share of hosts", Unit::Ratio).reaching(0.0, 1.0),
    );
    let now = sorted(hosts.iter().filter_map(|host| share(host.hits, host)));
    let then = sorted(hosts.iter().filter_map(|host| share(host.hits_with_gib_more, host)));
    chart.series.push(Series::new("Now", Shape::Steps, parts_up_to(&now)));
    chart.series.push(Series::new("With a GiB more", Shape::Steps, parts_up_to(&then)));
    let gain = |host: &FleetHost| host.hits_with_gib_more.saturating_sub(host.hits);
    let Prices { dram_usd_per_gib, ssd_usd_per_gib, .. } = fleet.prices;
    let [dram, ssd] =
        [dram_usd_per_gib, ssd_usd_per_gib].map(|usd| Unit::Dollars.show(usd * hosts.len() as f64));
    let text = format!("A GiB more for each host costs {dram} as DRAM, or {ssd} as SSD.");
    let most = first(hosts, |host| std::cmp::Reverse(gain(host)));
    let mut table = Rows::of("Host", "Hosts that gain most", &most, hosts.len(), |host| &host.name);
    table.number("Volumes", Unit::Count, |host| Some(host.volumes as f64));
    table.number("Cache", Unit::Bytes, |host| Some(host.cache_bytes as f64));
    table.number("Hits", Unit::Ratio, |host| share(host.hits, host));
    table.number("With a GiB more", Unit::Ratio, |host| share(host.hits_with_gib_more, host));
    table.number("More hits", Unit::Count, |host| Some(gain(host) as f64));
    // Without accesses there is nothing to draw.
    let drawn = (!now.is_empty()).then(|| Item::Lines(vec![chart]));
    [Item::Text(text)].into_iter().chain(drawn).chain([Item::Table(table.table)]).collect()
}

fn wear(fleet: &Fleet) -> Vec<Item> {
    let hosts = &fleet.replays;
    let values = |value: &dyn Fn(&FleetReplay) -> Option<f64>| sorted(hosts.iter().filter_map(value));
    let a_day = |host: &FleetReplay| {
        let span_s = host.span_s.filter(|&span_s| span_s > 0.0)?;
        Some(host.ssd_written_bytes as f64 * DAY_S / span_s)
    };
    let lives = values(&|host| host.ssd_life_years);
    let spread = quantiles(
        "What hosts have at most",
        "Hosts",
        vec![
            ("Reads that hit", Unit::Ratio, values(&|host| host.read_hit_ratio)),
            ("Latency of a request", Unit::Microseconds, values(&|host| host.mean_latency_us)),
            ("SSD written a day", Unit::BytesPerDay, values(&a_day)),
            ("SSD life", Unit::Years, lives.clone()),
        ],
    );
    let worn = |host: &FleetReplay| host.ssd_life_years.unwrap_or(f64::INFINITY).to_bits();
    let most = first(hosts, worn);
    let mut table = Rows::of("Host", "Hosts whose SSD lasts least", &most, hosts.len(), |host| &host.name);
    table.number("Volumes", Unit::Count, |host| Some(host.volumes as f64));
    table.number("Reads that hit", Unit::Ratio, |host| host.read_hit_ratio);
    table.number("Latency of a request", Unit::Microseconds, |host| host.mean_latency_us);
    table.number("SSD written", Unit::Bytes, |host| Some(host.ssd_written_bytes as f64));
    table.number("A day", Unit::BytesPerDay, a_day);
    table.number("SSD life", Unit::Years, |host| host.ssd_life_years);
    table.number("Cost", Unit::Dollars, |host| Some(host.cost_usd));
    let mut items = Vec::new();
    if !lives.is_empty() {
        let mut chart = LineChart::new(
            "Hosts by the life of their SSD",
            "Share of the hosts whose SSD lasts at most so long, if the traces go on as they are",
            Axis::log("SSD life", Unit::Years),
            Axis::linear("Share of hosts", Unit::Ratio).reaching(0.0, 1.0),
        );
        chart.series.push(Series::new("Hosts", Shape::Steps, parts_up_to(&lives)));
        items.push(Item::Lines(vec![chart]));
    }
    items.extend([Item::Table(spread), Item::Table(table.table)]);
    items
}

/// Numbers from the least to the largest.
fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The smallest of the sorted values that so large a part of them does not exceed; none of none.
fn quantile(sorted: &[f64], part: f64) -> Option<f64> {
    // What rounding adds to a whole number does not make it the next one.
    let at = (part * sorted.len() as f64 - 1e-6).ceil() as usize;
    sorted.get(at.saturating_sub(1)).copied()
}

/// Which part of the sorted values is at most each of them, in so few steps that a page can show them.
fn parts_up_to(sorted: &[f64]) -> Vec<(f64, f64)> {
    let count = sorted.len();
    let steps = count.min(MOST_STEPS);
    let mut points: Vec<(f64, f64)> = Vec::with_capacity(steps);
    for step in 1..=steps {
        let value = sorted[(count * step).div_ceil(steps) - 1];
        if points.last().is_none_or(|point| point.0 < value) {
            let up_to = sorted.partition_point(|other| *other <= value);
            points.push((value, up_to as f64 / count as f64));
        }
    }
    points
}

/// The first of all by a key, as many as a table names; of equals those that came first.
fn first<T, K: Ord>(all: &[T], key: impl Fn(&T) -> K) -> Vec<&T> {
    let mut found: Vec<&T> = all.iter().collect();
    found.sort_by_key(|one| key(one));
    found.truncate(MOST_NAMED);
    found
}

/// What so large parts of all have at most.
fn quantiles(title: &str, of: &str, columns: Vec<(&str, Unit, Vec<f64>)>) -> Table {
    let name = |part: f64| if part < 1.0 { format!("{:.0} %", 100.0 * part) } else { "all".to_owned() };
    let numbers = |(title, unit, sorted): (&str, Unit, Vec<f64>)| Column {
        title: title.to_owned(),
        cells: Cells::Numbers(unit, States::fixed(PARTS.map(|part| quantile(&sorted, part)).to_vec())),
    };
    let names = Column { title: of.to_owned(), cells: Cells::Text(PARTS.map(name).to_vec()) };
    Table {
        title: title.to_owned(),
        columns: [names].into_iter().chain(columns.into_iter().map(numbers)).collect(),
    }
}

/// A table of volumes or hosts.
struct Rows<'a, T> {
    rows: &'a [&'a T],
    table: Table,
}

impl<'a, T> Rows<'a, T> {
    /// `rows` are those that are named, of so many.
    fn of(what: &str, title: &str, rows: &'a [&'a T], count: usize, name: fn(&T) -> &String) -> Rows<'a, T> {
        let left_out = count - rows.len();
        let title = match left_out {
            0 => title.to_owned(),
            _ => format!("{title}: {} of {}", rows.len(), Unit::Count.show(count as f64)),
        };
        let names = rows.iter().map(|row| name(row).clone()).collect();
        let columns = vec![Column { title: what.to_owned(), cells: Cells::Text(names) }];
        Rows { rows, table: Table { title, columns } }
    }

    fn number(&mut self, title: &str, unit: Unit, value: impl Fn(&T) -> Option<f64>) {
        let values = self.rows.iter().map(|row| value(row)).collect();
        let cells = Cells::Numbers(unit, States::fixed(values));
        self.table.columns.push(Column { title: title.to_owned(), cells });
    }
}
