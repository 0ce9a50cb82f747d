//! What `lode top` shows and how keys change it. It must not know terminals, clocks or daemons.

use ratatui::Frame;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table, TableState};

use super::Look;
use super::rates::{Kind, READ_SSD, Rates, Wait, total};

/// Events that are shown, the latest last.
pub const SHOWN_EVENTS: usize = 2;
/// Lines that the list keeps on a low terminal, where there is no room for details.
const LEAST_LIST_LINES: u16 = 5;
/// Characters of a name that there is room for in any case.
const LEAST_NAME_WIDTH: u16 = 4;
const HELP: &str = "q quit  </> sort by  r reverse  / filter  arrows, PgUp, PgDn move";

/// What VMs may be sorted by: a title, characters of a column, and what is in it.
struct Column {
    title: &'static str,
    width: u16,
    value: fn(&Rates) -> Option<f64>,
    text: fn(&Rates) -> String,
}

/// Beside the names, which come first.
const COLUMNS: [Column; 10] = [
    Column { title: "read/s", width: 6, value: |vm| Some(vm.reads), text: |vm| amount(Some(vm.reads)) },
    Column { title: "writ/s", width: 6, value: |vm| Some(vm.writes), text: |vm| amount(Some(vm.writes)) },
    Column {
        title: "MiB/s",
        width: 6,
        value: |vm| Some(vm.mib_per_s),
        text: |vm| amount(Some(vm.mib_per_s)),
    },
    Column { title: "rdhit%", width: 6, value: |vm| vm.read_hits, text: |vm| percent(vm.read_hits) },
    Column { title: "wrhit%", width: 6, value: |vm| vm.write_hits, text: |vm| percent(vm.write_hits) },
    Column { title: "rd p99", width: 7, value: |vm| vm.read_p99_us, text: |vm| time(vm.read_p99_us) },
    Column { title: "wr p99", width: 7, value: |vm| vm.write_p99_us, text: |vm| time(vm.write_p99_us) },
    Column {
        title: "dirty",
        width: 6,
        value: |vm| Some(vm.dirty_mib),
        text: |vm| amount(Some(vm.dirty_mib)),
    },
    Column {
        title: "age",
        width: 4,
        value: |vm| vm.oldest_dirty_s.map(|s| s as f64),
        text: |vm| vm.oldest_dirty_s.map_or_else(|| "-".to_owned(), age),
    },
    Column {
        title: "SSDwr",
        width: 6,
        value: |vm| Some(vm.ssd_mib_per_s),
        text: |vm| amount(Some(vm.ssd_mib_per_s)),
    },
];

/// The state of the screen.
#[derive(Default)]
pub struct Top {
    /// What is above the list: the daemon, and what the rates are of.
    title: String,
    /// What the cache SSD takes, and may.
    wear: Option<String>,
    rates: Vec<Rates>,
    events: Vec<String>,
    /// 0: names; else the column before this number.
    sort: usize,
    reverse: bool,
    filter: String,
    is_typing: bool,
    /// Of the VMs that are shown, in their order.
    list: TableState,
}

impl Top {
    /// Takes new rates. Whoever was selected still is.
    pub fn update(&mut self, look: Look, events: Vec<String>) {
        let selected = self.selected().map(|vm| vm.name.clone());
        let Look { title, wear, rates } = look;
        (self.title, self.wear, self.rates, self.events) = (title, wear, rates, events);
        self.select(selected.as_deref());
    }

    /// Says that there are none.
    pub fn fail(&mut self, error: &str) {
        self.title = error.to_owned();
    }

    /// Takes a key. Whether to go on.
    pub fn press(&mut self, key: KeyCode) -> bool {
        if self.is_typing {
            self.type_filter(key);
            return true;
        }
        let selected = self.selected().map(|vm| vm.name.clone());
        match key {
            KeyCode::Char('q') => return false,
            KeyCode::Char('>' | 's') => self.sort = (self.sort + 1) % (COLUMNS.len() + 1),
            KeyCode::Char('<') => self.sort = (self.sort + COLUMNS.len()) % (COLUMNS.len() + 1),
            KeyCode::Char('r') => self.reverse = !self.reverse,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Esc => self.filter.clear(),
            _ => {
                self.go(key);
                return true;
            }
        }
        self.select(selected.as_deref());
        true
    }

    fn type_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Char(letter) => self.filter.push(letter),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.filter.clear();
                self.is_typing = false;
            }
            _ => {}
        }
        self.select(None);
    }

    fn go(&mut self, key: KeyCode) {
        const PAGE: usize = 10;
        let last = self.shown().len().saturating_sub(1);
        let now = self.list.selected().unwrap_or(0);
        let to = match key {
            KeyCode::Up | KeyCode::Char('k') => now.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => now + 1,
            KeyCode::PageUp => now.saturating_sub(PAGE),
            KeyCode::PageDown => now + PAGE,
            KeyCode::Home => 0,
            KeyCode::End => last,
            _ => now,
        };
        self.list.select(Some(to.min(last)));
    }

    /// The VMs that the filter lets through, in order.
    fn shown(&self) -> Vec<&Rates> {
        let mut shown: Vec<&Rates> = self.rates.iter().filter(|vm| vm.name.contains(&self.filter)).collect();
        match self.sort.checked_sub(1).and_then(|at| COLUMNS.get(at)) {
            None => shown.sort_by(|one, other| one.name.cmp(&other.name)),
            // Large ones are what one looks for.
            Some(column) => shown.sort_by(|one, other| {
                let value = |vm| (column.value)(vm).unwrap_or(-1.0);
                value(other).total_cmp(&value(one)).then_with(|| one.name.cmp(&other.name))
            }),
        }
        if self.reverse {
            shown.reverse();
        }
        shown
    }

    fn selected(&self) -> Option<&Rates> {
        self.shown().get(self.list.selected()?).copied()
    }

    /// Selects the VM of this name, or the first one.
    fn select(&mut self, name: Option<&str>) {
        let at = self.shown().iter().position(|vm| Some(vm.name.as_str()) == name);
        let at = at.or((!self.shown().is_empty()).then_some(0));
        self.list.select(at);
    }

    /// Draws all of it.
    pub fn draw(&mut self, frame: &mut Frame<'_>) {
        // Where there is not room for all, the list comes first, then the details, then the events.
        let head_lines = 2 + u16::from(self.wear.is_some());
        let room = frame.area().height.saturating_sub(LEAST_LIST_LINES + head_lines + 1);
        let description = self.selected().map(describe).unwrap_or_default();
        let details = Some(description.len() as u16).filter(|lines| *lines <= room).unwrap_or(0);
        let events_room = if details > 0 { room - details } else { 0 };
        let events = latest_lines(&self.events, frame.area().width.into(), events_room.into());
        let parts = [head_lines, 0, details, events.len() as u16, 1].map(Constraint::Length);
        let parts = [parts[0], Constraint::Min(2), parts[2], parts[3], parts[4]];
        let [head, list, detail, event, foot] = Layout::vertical(parts).areas(frame.area());
        let all = total(&self.rates);
        let shown = self.shown().len();
        let sums = format!(
            "{shown}/{} VMs, {} read/s, {} writ/s, {} MiB/s, dirty {}, SSDwr {}",
            self.rates.len(),
            amount(Some(all.reads)),
            amount(Some(all.writes)),
            amount(Some(all.mib_per_s)),
            amount(Some(all.dirty_mib)),
            amount(Some(all.ssd_mib_per_s)),
        );
        let lines = [self.title.clone(), sums].into_iter().chain(self.wear.clone()).map(Line::from);
        frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), head);
        self.draw_list(frame, list);
        if details > 0 {
            let lines: Vec<Line<'_>> = description.into_iter().map(Line::from).collect();
            frame.render_widget(Paragraph::new(lines), detail);
        }
        let latest: Vec<Line<'_>> = events.into_iter().map(Line::from).collect();
        frame.render_widget(Paragraph::new(latest), event);
        let foot_text = match (self.is_typing, self.filter.is_empty()) {
            (true, _) => format!("/{}_  Enter keep, Esc all", self.filter),
            (false, false) => format!("names with '{}'  Esc all  {HELP}", self.filter),
            (false, true) => HELP.to_owned(),
        };
        frame.render_widget(Paragraph::new(foot_text), foot);
    }

    fn draw_list(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let title = |(at, title): (usize, &'static str)| {
            let style = if at == self.sort { Modifier::UNDERLINED } else { Modifier::empty() };
            let line = if at == 0 { Line::from(title) } else { Line::from(title).right_aligned() };
            Cell::from(line).style(Style::new().add_modifier(style))
        };
        let header = Row::new(titles().into_iter().enumerate().map(title));
        let header = header.style(Style::new().add_modifier(Modifier::BOLD));
        let beside: u16 = COLUMNS.iter().map(|column| column.width + 1).sum();
        let name_width = area.width.saturating_sub(beside).max(LEAST_NAME_WIDTH);
        let rows: Vec<Row<'_>> = self.shown().into_iter().map(|vm| row(vm, name_width.into())).collect();
        let widths = [Constraint::Min(LEAST_NAME_WIDTH)].into_iter();
        let widths = widths.chain(COLUMNS.iter().map(|column| Constraint::Length(column.width)));
        let table = Table::new(rows, widths).header(header).column_spacing(1);
        let table = table.row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        frame.render_stateful_widget(table, area, &mut self.list);
    }
}

/// The titles of a table of rates.
pub fn titles() -> Vec<&'static str> {
    ["VM"].into_iter().chain(COLUMNS.iter().map(|column| column.title)).collect()
}

/// A VM's row of it.
pub fn cells(vm: &Rates) -> Vec<String> {
    [vm.name.clone()].into_iter().chain(COLUMNS.iter().map(|column| (column.text)(vm))).collect()
}

fn row(vm: &Rates, name_width: usize) -> Row<'static> {
    let aligned = |(at, text): (usize, String)| match at {
        0 => Cell::from(shortened(&text, name_width)),
        _ => Cell::from(Line::from(text).right_aligned()),
    };
    Row::new(cells(vm).into_iter().enumerate().map(aligned))
}

/// A name in so many characters: of a long one its end, in which names of a common beginning differ, and a little of that.
fn shortened(name: &str, width: usize) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= width {
        return name.to_owned();
    }
    let kept = width.saturating_sub(1);
    let (head, tail) = (kept / 3, kept - kept / 3);
    letters[..head].iter().chain(&['…']).chain(&letters[letters.len() - tail..]).collect()
}

/// The details of one VM.
pub fn describe(vm: &Rates) -> Vec<String> {
    let own = format!(
        "{}: {}, {} connected; SSD wear {}, {} MiB so far",
        vm.name,
        vm.scheme,
        vm.connections,
        vm.wear.text(),
        amount(Some(vm.ssd_written_mib))
    );
    let titles = format!("{:<8}{:>11}{:>9}{:>9}{:>9}", "", "requests/s", "blocks %", "p50", "p99");
    let shares = vm.shares.clone().unwrap_or_else(|| "shares are not known".to_owned());
    // A level that serves nothing and is rare has no line.
    let kinds = vm.kinds.iter().filter(|kind| kind.name != READ_SSD || kind.requests > 0.0);
    let kinds = kinds.map(|Kind { name, requests, share, p50_us, p99_us }| {
        let (requests, share) = (amount(Some(*requests)), percent(*share));
        format!("{name:<8}{requests:>11}{share:>9}{:>9}{:>9}", time(*p50_us), time(*p99_us))
    });
    // Beside these what was waited for, as far as there are lines.
    let waits = vm.waits.iter().map(|Wait { name, share, p99_us }| {
        format!("{name:<14}{:>7}{:>9}", percent(Some(*share)), time(*p99_us))
    });
    let waits = [format!("{:<14}{:>7}{:>9}", "waited for", "time %", "p99")].into_iter().chain(waits);
    let waits = waits.chain(std::iter::repeat(String::new()));
    let both = [titles].into_iter().chain(kinds).zip(waits);
    let both = both.map(|(kind, wait)| format!("{kind}   {wait}").trim_end().to_owned());
    [own, shares].into_iter().chain(both).collect()
}

/// Seconds in four characters.
fn age(s: u64) -> String {
    match s {
        0..100 => format!("{s}s"),
        100..6000 => format!("{}m", s / 60),
        6000..360_000 => format!("{}h", s / 3600),
        _ => format!("{}d", (s / 86_400).min(999)),
    }
}

/// A number in at most six characters; a dash when there is none.
fn amount(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(0.0) => "0".to_owned(),
        Some(value) if value < 99.95 => format!("{value:.1}"),
        Some(value) if value < 99_999.5 => format!("{value:.0}"),
        Some(value) if value < 9_999_500.0 => format!("{:.0}k", value / 1e3),
        Some(value) => format!("{:.0}M", value / 1e6),
    }
}

fn percent(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{:.1}", 100.0 * share))
}

/// A time with its unit in at most seven characters.
fn time(us: Option<f64>) -> String {
    match us {
        None => "-".to_owned(),
        Some(us) if us < 1e3 => format!("{us:.0} us"),
        Some(us) if us < 1e6 => format!("{:.1}ms", us / 1e3),
        Some(us) => format!("{:.1} s", us / 1e6),
    }
}

/// As many of the latest events as there is room for, each whole, or the beginning of the last one.
fn latest_lines(events: &[String], width: usize, most_lines: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for event in events.iter().rev() {
        let mut wrapped = in_lines(event, width);
        if lines.is_empty() {
            wrapped.truncate(most_lines);
        }
        if lines.len() + wrapped.len() > most_lines {
            break;
        }
        lines.splice(0..0, wrapped);
    }
    lines
}

/// A text in lines of this width, all but the first indented. A longer word has a line of its own, and is cut.
fn in_lines(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) => lines.push(format!("  {word}")),
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::rates::{
        host_wear, rates,
        tests::{limited_snapshot, snapshot},
    };
    use super::*;

    fn top(vms: &[(&str, u64)]) -> Top {
        shown(None, rates(None, &snapshot(1, vms)))
    }

    fn shown(wear: Option<String>, rates: Vec<Rates>) -> Top {
        let mut top = Top::default();
        let events = (1..=SHOWN_EVENTS).map(|at| format!("event {at}")).collect();
        top.update(Look { title: "host1".to_owned(), wear, rates }, events);
        top
    }

    /// A hundred VMs, of which each does more than the one before.
    fn hundred() -> Top {
        let names: Vec<String> = (0..100).map(|at| format!("vm{at:02}")).collect();
        let vms: Vec<(&str, u64)> = names.iter().zip(1..).map(|(name, n)| (name.as_str(), n)).collect();
        top(&vms)
    }

    fn screen(top: &mut Top, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| top.draw(frame)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(line).collect()
    }

    fn press(top: &mut Top, keys: &str) {
        for key in keys.chars() {
            assert!(top.press(if key == '\n' { KeyCode::Enter } else { KeyCode::Char(key) }));
        }
    }

    /// The names in the list.
    fn names(screen: &[String]) -> Vec<&str> {
        let list = screen[3..].iter().take_while(|line| line.starts_with("vm") && !line.contains(':'));
        list.map(|line| line.split(' ').next().unwrap()).collect()
    }

    #[test]
    fn a_line_has_all_of_a_vm_on_eighty_columns() {
        let screen = screen(&mut top(&[("vm01", 2)]), 80, 24);
        let words: Vec<&str> = screen[3].split_whitespace().collect();
        assert_eq!(words[..8], ["vm01", "200", "56.0", "1.0", "75.0", "25.0", "10.0", "s"], "{screen:#?}");
        assert_eq!(words[8..], ["50", "us", "2.0", "2s", "4.0"], "{screen:#?}");
        assert_eq!(screen[2].split_whitespace().last(), Some("SSDwr"));
        let disk = screen.iter().find(|line| line.starts_with("disk")).expect("details");
        let words: Vec<&str> = disk.split_whitespace().collect();
        assert_eq!(words, ["disk", "50.0", "25.0", "10.0", "s", "10.0", "s"]);
        let waited: Vec<&str> = screen.iter().filter_map(|line| line.get(49..)).map(str::trim_end).collect();
        let at = waited.iter().position(|line| line.starts_with("waited for")).expect("what was waited for");
        let wait = |at: usize| waited[at].split_whitespace().collect::<Vec<_>>();
        assert_eq!(wait(at + 1), ["disk", "read", "75.0", "10.0", "s"], "{screen:#?}");
        assert_eq!(wait(at + 2), ["daemon", "25.0", "5", "us"], "{screen:#?}");
        assert!(screen.iter().all(|line| line.chars().count() <= 80), "{screen:#?}");
        let shares = "DRAM 2 MiB, could use 4 MiB; SSD 4 GiB";
        assert!(screen.iter().any(|line| line == shares), "{screen:#?}");
        assert_eq!(screen[21..23], ["event 1", "event 2"], "{screen:#?}");
    }

    #[test]
    fn wear_is_shown_beside_its_limits_on_eighty_columns() {
        let now = limited_snapshot(1, &[("vm01", 2), ("vm02", 1)], (800 << 30, 600_000_000_000_000));
        let rates = rates(None, &now);
        let wear = host_wear(&rates, &now);
        let screen = screen(&mut shown(Some(format!("SSD wear {}", wear.text())), rates), 80, 24);
        // 6 MiB/s.
        let host = "SSD wear 506.25 GiB/day of 800 GiB/day; 600 TB rated last 3.0 years";
        assert_eq!(screen[2], host, "{screen:#?}");
        let own = "vm01: etica, 2 connected; SSD wear 337.50 GiB/day of 400 GiB/day, 4.0 MiB so far";
        assert!(screen.iter().any(|line| line == own), "{screen:#?}");
        assert!(screen[3].starts_with("VM ") && screen[4].starts_with("vm01 "), "{screen:#?}");
        assert_eq!(screen[21..23], ["event 1", "event 2"], "{screen:#?}");
    }

    #[test]
    fn long_events_are_whole_as_far_as_there_is_room() {
        let events: Vec<String> =
            ["an older one", "vm17 +38 GiB SSD: +11.2 % read hits expected; from vm03, -0.4 %"]
                .map(str::to_owned)
                .to_vec();
        let last = ["vm17 +38 GiB SSD: +11.2 % read hits", "  expected; from vm03, -0.4 %"];
        assert_eq!(latest_lines(&events, 36, 2), last);
        assert_eq!(latest_lines(&events, 36, 3), [&["an older one"], &last[..]].concat());
        assert_eq!(latest_lines(&events, 36, 1), last[..1]);
        assert_eq!(latest_lines(&events, 80, 2), events);
        assert_eq!(latest_lines(&events, 36, 0), [""; 0]);
    }

    #[test]
    fn a_hundred_vms_scroll_on_a_small_screen() {
        let mut top = hundred();
        assert_eq!(names(&screen(&mut top, 80, 24))[..3], ["vm00", "vm01", "vm02"]);
        let lines = names(&screen(&mut top, 80, 24)).len();
        assert!(lines >= 10, "{lines} lines");
        assert!(top.press(KeyCode::End));
        assert_eq!(names(&screen(&mut top, 80, 24)).last(), Some(&"vm99"));
        assert!(screen(&mut top, 80, 24).iter().any(|line| line.starts_with("vm99: etica")), "its details");
        assert!(top.press(KeyCode::PageUp) && top.press(KeyCode::Up));
        assert_eq!(top.selected().unwrap().name, "vm88");
        assert!(top.press(KeyCode::Home) && top.press(KeyCode::Up));
        assert_eq!(names(&screen(&mut top, 80, 24))[0], "vm00");
        // Without room for details there is the list, and nothing panics on the smallest screens.
        assert_eq!(names(&screen(&mut top, 80, 10)).len(), 6);
        for (width, height) in [(1, 1), (20, 3), (80, 4)] {
            screen(&mut top, width, height);
        }
    }

    #[test]
    fn keys_sort_and_reverse() {
        let mut top = hundred();
        press(&mut top, ">");
        assert_eq!(top.shown()[0].name, "vm99", "the largest first");
        assert_eq!(top.selected().unwrap().name, "vm00", "who was selected still is");
        press(&mut top, "r");
        assert_eq!(top.shown()[0].name, "vm00");
        press(&mut top, "<");
        assert_eq!(top.shown()[0].name, "vm99", "names, reversed");
        press(&mut top, "<r");
        assert_eq!(top.shown()[0].name, "vm99", "the last column");
    }

    #[test]
    fn a_filter_is_typed_kept_and_given_up() {
        let mut top = hundred();
        press(&mut top, "/7q");
        assert!(screen(&mut top, 80, 24).last().unwrap().starts_with("/7q_"), "letters are no keys now");
        assert!(top.shown().is_empty() && top.selected().is_none());
        assert!(top.press(KeyCode::Backspace));
        press(&mut top, "\n");
        assert_eq!(top.shown().len(), 19);
        assert!(screen(&mut top, 80, 24)[1].starts_with("19/100 VMs"));
        assert!(top.press(KeyCode::Esc));
        assert_eq!(top.shown().len(), 100);
        assert!(!top.press(KeyCode::Char('q')));
    }

    #[test]
    fn a_daemon_that_is_gone_is_told_and_no_number_is_lost() {
        let mut top = hundred();
        top.fail("no daemon");
        let screen = screen(&mut top, 80, 24);
        assert_eq!(screen[0], "no daemon");
        assert_eq!(names(&screen)[0], "vm00");
    }

    #[test]
    fn long_names_differ_and_sums_are_whole_on_eighty_columns() {
        let names = ["production-database-01", "production-database-02"];
        let mut top = top(&[(names[0], 9_000), (names[1], 2)]);
        let screen = screen(&mut top, 80, 24);
        assert!(screen[1].contains("MiB/s") && screen[1].contains("SSDwr "), "{screen:#?}");
        assert!(screen[1].ends_with(|last: char| last.is_ascii_digit()), "{screen:#?}");
        assert!(
            screen[3].starts_with("pro…") && screen[3].contains("-01 ") && screen[4].contains("-02 "),
            "{screen:#?}"
        );
        assert_eq!([4, 22, 40].map(|width| shortened(names[0], width).chars().count()), [4, 22, 22]);
    }

    #[test]
    fn numbers_keep_to_their_columns() {
        for value in [0.0, 0.04, 99.94, 99.95, 1234.5, 99_999.4, 99_999.6, 9_999_499.0, 9_999_501.0, 1e11] {
            assert!(amount(Some(value)).len() <= 7, "{value}");
        }
        assert_eq!([time(Some(999.4)), time(Some(1e3)), time(Some(2.5e6))], ["999 us", "1.0ms", "2.5 s"]);
        assert_eq!([99, 100, 5999, 6000, 400_000].map(age), ["99s", "1m", "99m", "1h", "4d"]);
        assert!([0, 99, 5999, 359_999, u64::MAX].map(age).iter().all(|age| age.len() <= 4));
    }
}
