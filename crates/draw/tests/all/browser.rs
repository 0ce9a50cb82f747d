//! Pages in headless Chromium: what the script makes of them, whether it complains, how they read numbers.

use std::collections::BTreeMap;

use lode_draw::*;

use crate::chromium::{self, texts};
use crate::report::{Report, SAY, listen};
use crate::sample::{compare, planner};

/// The page after its script and `more` have run, or none where there is no browser.
fn opened(page: &Page, address: &str, more: &str) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.html");
    let html = page.html().unwrap().replace("</body>", &format!("<script>{more}</script></body>"));
    std::fs::write(&file, html).unwrap();
    chromium::opened(&file, address)
}

/// What `more` wrote with `note(…)`.
fn noted(dom: &str) -> Vec<String> {
    texts(dom, "<p class=\"noted\"").into_iter().map(str::to_owned).collect()
}

const NOTE: &str = "const note = text => { const p = document.createElement('p'); p.className = 'noted'; \
                    p.textContent = text; document.body.append(p); };";

#[test]
fn sliders_and_fields_change_everything_that_follows_them() {
    let page = planner::planner_page(6, 50);
    let Some(first) = opened(&page, "", "") else { return };
    let last = opened(&page, "#slider=31,3&field=2,5", "").unwrap();
    // The script shows the state that the file shows.
    let html = page.html().unwrap();
    for start in ["<dd", "<td class=\"n\"", "<output", "<li"] {
        assert_eq!(texts(&first, start), texts(&html, start), "{start}");
    }
    let positions = [page.sliders[0].positions[31], page.sliders[1].positions[3]];
    assert_eq!(texts(&last, "<output"), positions.map(|bytes| Unit::Bytes.show(bytes)));
    let FigureValue::Quotient { over, under } = &page.figures[2].value else { panic!("years are derived") };
    let at = |factor: &Factor, fields: [f64; 2]| match factor {
        Factor::Given(states) => given_at(states, 3),
        Factor::Field(index) => fields[*index],
    };
    let product = |factors: &[Factor]| factors.iter().map(|factor| at(factor, [2.0, 5.0])).product::<f64>();
    let years = Unit::Years.show(product(over) / product(under));
    assert!(texts(&last, "<dd").contains(&years.as_str()), "{years} in {:?}", texts(&last, "<dd"));
    // Bars, marks, cells and sentences have moved.
    for mark in ["class=\"bar\"", "class=\"marker\"", "<td class=\"n\"", "<li"] {
        let parts = |dom: &str| {
            dom.split(mark).skip(1).map(|rest| rest.chars().take(60).collect::<String>()).collect::<Vec<_>>()
        };
        assert_eq!(parts(&first).len(), parts(&last).len());
        assert_ne!(parts(&first), parts(&last), "{mark}");
    }
    assert!(texts(&last, "<text").contains(&expected_bar(&page).as_str()), "{}", expected_bar(&page));
}

/// The state of a value that follows one slider, read as the page's data say.
fn given_at(states: &States<f64>, position: usize) -> f64 {
    states.values()[position]
}

/// What stands behind the first VM's DRAM bar when the first slider is at its end.
fn expected_bar(page: &Page) -> String {
    let Item::Bars(chart) = &page.sections[2].items[0] else { panic!("the third section has the bars") };
    Unit::Bytes.show(chart.panels[0].parts[0].values.values()[31][0].expect("it is known"))
}

#[test]
fn the_script_reads_numbers_as_the_library_does() {
    let units = [
        Unit::Count,
        Unit::Ratio,
        Unit::Bytes,
        Unit::BytesPerDay,
        Unit::Microseconds,
        Unit::Years,
        Unit::Dollars,
        Unit::Named("J"),
    ];
    let mut values = vec![0.0, 1.0, 0.5, 99.95, 99.949, 999.5, 1023.6, 1024.0, 0.125, 2.5, 1e21, 1.5e25];
    values.extend((-24..60).map(|power| 1.37891 * 1.8_f64.powi(power)));
    values.extend((1..8).map(|power| 1024_f64.powi(power) - 0.3 * 1024_f64.powi(power - 1)));
    // Six digits are what the page's data have.
    let six = |value: f64| format!("{value:.5e}").parse::<f64>().unwrap();
    let values: Vec<f64> = values.iter().flat_map(|value| [six(*value), -six(*value)]).collect();
    let column = |unit: Unit| {
        let cells: Vec<Option<f64>> = values.iter().copied().map(Some).collect();
        // The script writes cells that follow a slider anew.
        Column {
            title: String::new(),
            cells: Cells::Numbers(unit, States::by(0, vec![vec![None; values.len()], cells])),
        }
    };
    let names = Column { title: "n".to_owned(), cells: Cells::Text(vec!["row".to_owned(); values.len()]) };
    let columns = std::iter::once(names).chain(units.map(column)).collect();
    let table = Item::Table(Table { title: "numbers".to_owned(), columns });
    let page = Page {
        sliders: vec![Slider {
            label: String::new(),
            unit: Unit::Count,
            positions: vec![0.0, 1.0],
            start: 0,
        }],
        sections: vec![Section { title: String::new(), items: vec![table] }],
        ..Page::default()
    };
    let Some(dom) = opened(&page, "#slider=1", "") else { return };
    let wanted: Vec<String> = values.iter().flat_map(|&value| units.map(|unit| unit.show(value))).collect();
    let shown = texts(&dom, "<td class=\"n\"");
    assert_eq!(shown.len(), wanted.len());
    for (at, (shown, wanted)) in shown.iter().zip(&wanted).enumerate() {
        assert_eq!(shown, wanted, "{} as {:?}", values[at / units.len()], units[at % units.len()]);
    }
}

#[test]
fn tables_sort_by_number_and_text_and_can_be_searched() {
    let page = planner::planner_page(14, 20);
    let script = format!(
        "{NOTE} const column = at => [...document.querySelectorAll('tbody tr')].map(row => row.cells[at].textContent);\n\
         const heads = document.querySelectorAll('thead button');\n\
         heads[2].click(); note(column(2).join('|')); note(heads[2].closest('th').getAttribute('aria-sort'));\n\
         heads[2].click(); note(column(2).join('|')); heads[0].click(); note(column(0).join('|'));\n\
         const search = document.querySelector('.search'); search.value = 'VM03'; search.dispatchEvent(new Event('input'));\n\
         note([...document.querySelectorAll('tbody tr')].filter(row => !row.hidden).length);"
    );
    let Some(dom) = opened(&page, "", &script) else { return };
    let notes = noted(&dom);
    let number = |text: &str| text.trim_end_matches(" %").parse::<f64>();
    let down: Vec<f64> = notes[0].split('|').filter_map(|text| number(text).ok()).collect();
    assert_eq!(down.len(), 13);
    assert!(down.windows(2).all(|pair| pair[0] >= pair[1]), "{down:?}");
    assert!(notes[0].ends_with("|–"), "the empty cell is last");
    assert_eq!(notes[1], "descending");
    let up: Vec<f64> = notes[2].split('|').filter_map(|text| number(text).ok()).collect();
    assert!(up.windows(2).all(|pair| pair[0] <= pair[1]) && notes[2].ends_with("|–"), "{up:?}");
    assert!(notes[3].starts_with("vm00|vm01|vm02|") && notes[3].ends_with("|vm13"));
    assert_eq!(notes[4], "1");
}

#[test]
fn numbers_within_text_are_sorted_as_numbers_and_behind_them_stands_text() {
    let cells =
        ["–", "-2.2 %", "1,095 ms", "-633.5 %", "4.10-x", "14.1 %", "1.27e-5", "4.9-x", "9.00e-6", "999 ms"];
    let texts_of = |title: &str| Column {
        title: title.to_owned(),
        cells: Cells::Text(cells.map(str::to_owned).to_vec()),
    };
    let table = Table { title: "t".to_owned(), columns: vec![texts_of("a"), texts_of("b")] };
    let items = vec![Item::Table(table)];
    let page = Page { sections: vec![Section { title: String::new(), items }], ..Page::default() };
    let script = format!(
        "{NOTE} for (let click = 0; click < 2; click += 1) {{ document.querySelectorAll('thead button')[1].click();\n\
         note([...document.querySelectorAll('tbody tr')].map(row => row.cells[1].textContent).join('|')); }}"
    );
    let Some(dom) = opened(&page, "", &script) else { return };
    let up = "-633.5 %|-2.2 %|9.00e-6|1.27e-5|14.1 %|999 ms|1,095 ms|–|4.9-x|4.10-x";
    let down = "1,095 ms|999 ms|14.1 %|1.27e-5|9.00e-6|-2.2 %|-633.5 %|4.10-x|4.9-x|–";
    assert_eq!(noted(&dom), [up, down]);
}

/// In a narrow window the legend takes more rows, of which each name is seen as a whole; what is not known stays a dash.
#[test]
fn bars_and_their_legend_fit_a_narrow_window() {
    let mut bars = compare::stacked();
    for panel in &mut bars.panels {
        panel.parts[0].values = States::fixed(vec![None; bars.rows.len()]);
    }
    let section = Section { title: String::new(), items: vec![Item::Bars(bars)] };
    let page = Page { sections: vec![section], ..Page::default() };
    let script = format!(
        "{NOTE} const svg = document.querySelector('.scroll > svg'), [, above, width] = svg.getAttribute('viewBox').split(' ').map(Number);\n\
         const parts = [...svg.querySelectorAll('.part')].map(part => [part, part.transform.baseVal.consolidate().matrix, part.querySelector('text')]);\n\
         note(width); note(parts.map(([, , text]) => text.textContent).join('|'));\n\
         note(parts.every(([, m, text]) => Number(text.getAttribute('x')) + m.e + text.getComputedTextLength() <= width));\n\
         note(parts.every(([, m, text]) => Number(text.getAttribute('y')) + m.f > above));\n\
         note(above < 0); note([...document.querySelectorAll('.value')].slice(0, 3).map(value => value.textContent).join('|'));"
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.html");
    let html = page.html().unwrap().replace("</head>", "<style>.scroll { width: 400px; }</style></head>");
    std::fs::write(&file, html.replace("</body>", &format!("<script>{script}</script></body>"))).unwrap();
    let Some(dom) = chromium::opened(&file, "") else { return };
    let notes = noted(&dom);
    assert_eq!(notes[..2], ["400", "DRAM|SSD|Disk|Fills|Guest writes"]);
    assert_eq!(notes[2..5], ["true", "true", "true"]);
    let values: Vec<&str> = notes[5].split('|').collect();
    // The first panel's bars are stacked, the second one's are not.
    assert!(values[..2] == ["–", "–"] && values[2] != "–", "{values:?}");
}

/// What moves a pointer over the first chart, and what is read then. Chromium shows no second picture in virtual time, so that timers
/// stand for pictures.
const POINT: &str = "const svg = document.querySelector('figure.lines svg'), figure = svg.closest('figure');\n\
    window.requestAnimationFrame = act => setTimeout(act, 16); const shown = () => new Promise(done => setTimeout(done, 100));\n\
    const point = (kind, x, y) => { const p = new DOMPoint(x, y).matrixTransform(svg.getScreenCTM());\n\
      svg.dispatchEvent(new PointerEvent(kind, { clientX: p.x, clientY: p.y, pointerId: 1 })); return shown(); };\n\
    const read = () => [...figure.querySelectorAll('.names em')].map(em => em.textContent).join('|');\n\
    const curves = () => svg.querySelectorAll('.curve').length;\n\
    const press = text => [...figure.querySelectorAll('.tools button')].find(b => b.textContent.startsWith(text)).click();";

#[test]
fn all_curves_are_read_at_once_and_light_up_without_fading() {
    let page = planner::planner_page(10, 100);
    let script = format!(
        "{NOTE} {POINT} (async () => {{ await point('pointermove', 500, 200);\n\
         note(read()); note(figure.querySelectorAll('.names .on').length); note(figure.querySelector('.head').textContent);\n\
         note(figure.querySelector('.names .on span').textContent === 'vm0' + figure.querySelector('.over g.s.on').dataset.s);\n\
         note(document.querySelectorAll('tbody tr.on').length); note(document.querySelectorAll('.row.on').length);\n\
         note([...svg.querySelectorAll('.s')].every(s => getComputedStyle(s).opacity >= 0.7));\n\
         await point('pointermove', 5, 5); note(read()); }})();"
    );
    let Some(dom) = opened(&page, "", &script) else { return };
    let notes = noted(&dom);
    let sizes: Vec<String> = match &page.sections[1].items[0] {
        Item::Lines(charts) => {
            charts[0].series[0].points.iter().map(|point| Unit::Bytes.show(point.0)).collect()
        }
        _ => panic!("the second section has the curves"),
    };
    let (size, nearest) = notes[2].split_once(": ").expect("what was read");
    assert!(
        sizes.contains(&size.to_owned()) && nearest.starts_with("vm0"),
        "{} is no measured size",
        notes[2]
    );
    let bytes = sizes.iter().position(|known| known == size).unwrap();
    let vms = planner::vms(10);
    let Item::Lines(charts) = &page.sections[1].items[0] else { unreachable!() };
    let at = charts[0].series[0].points[bytes].0;
    let wanted: Vec<String> = vms.iter().map(|vm| Unit::Ratio.show(vm.hit_ratio(at))).collect();
    assert_eq!(notes[0].split('|').collect::<Vec<_>>(), wanted, "all ten, as they were measured at {size}");
    assert_eq!(notes[3..7], ["true", "1", "1", "true"]);
    assert_eq!((notes[1].as_str(), notes[7].as_str()), ("1", "|||||||||"));
}

#[test]
fn names_hide_and_isolate_and_dragging_zooms() {
    let page = planner::planner_page(10, 100);
    let script = format!(
        "{NOTE} {POINT} (async () => {{ const names = figure.querySelectorAll('.names button'), ticks = () =>\n\
           [...svg.querySelectorAll('.axes text')].map(text => text.textContent).join('|');\n\
         const first = ticks(); names[3].click(); note(curves()); note(names[3].getAttribute('aria-pressed')); names[3].click();\n\
         names[4].dispatchEvent(new MouseEvent('dblclick')); note(curves()); note(svg.querySelector('g.s').dataset.s);\n\
         await point('pointermove', 500, 200); note(read().replaceAll('|', '').length > 0 && read().startsWith('||||'));\n\
         press('Show all'); note(curves()); await point('pointerdown', 300, 100); await point('pointermove', 500, 200);\n\
         note(figure.querySelectorAll('.drag').length); await point('pointerup', 500, 200); note(ticks() !== first);\n\
         note(figure.querySelectorAll('.drag').length); press('Reset zoom'); note(ticks() === first);\n\
         press('Show misses'); note(ticks().includes('Misses')); press('Show hits'); press('x axis: log'); note(ticks() !== first);\n\
         press('x axis: linear'); note(ticks() === first); }})();"
    );
    let Some(dom) = opened(&with_misses(page), "", &script) else { return };
    let wanted = ["9", "false", "1", "4", "true", "10", "1", "true", "0", "true", "true", "true", "true"];
    assert_eq!(noted(&dom), wanted);
}

/// Volumes of one trace differ at the ends of their names; and no chart is wider than its place.
#[test]
fn names_keep_their_ends_and_charts_their_places() {
    let mut page = planner::planner_page(10, 100);
    let Item::Lines(charts) = &mut page.sections[1].items[0] else {
        panic!("the second section has the curves")
    };
    for series in charts.iter_mut().flat_map(|chart| &mut chart.series) {
        series.name = format!("one-of-the-volumes-of-a-trace-with-a-very-long-name:{}", series.name);
    }
    let script = format!(
        "{NOTE} const right = part => part.getBoundingClientRect().right, names = [...document.querySelectorAll('.names .name')];\n\
         note(names.length >= 10 && names.every(name => name.textContent.startsWith('one-of') && /^.*vm\\d+$/.test(name.lastChild.textContent)\n\
           && right(name.lastChild) <= right(name) + 1 && name.lastChild.scrollWidth <= name.lastChild.clientWidth));\n\
         note(names.some(name => name.firstChild.scrollWidth > name.firstChild.clientWidth));\n\
         note([...document.querySelectorAll('.scroll > svg')].every(svg => getComputedStyle(svg).minWidth === '0px'));"
    );
    let Some(dom) = opened(&page, "", &script) else { return };
    assert_eq!(noted(&dom), ["true", "true", "true"]);
}

/// The page with misses to choose.
fn with_misses(mut page: Page) -> Page {
    let Item::Lines(charts) = &mut page.sections[1].items[0] else {
        panic!("the second section has the curves")
    };
    charts[0].y = charts[0].y.clone().with_complement("Misses");
    page
}

/// The charts of a page with the six digits that its data have.
fn with_six_digits(mut page: Page) -> Page {
    let six = |value: f64| format!("{value:.5e}").parse::<f64>().unwrap();
    for item in page.sections.iter_mut().flat_map(|section| &mut section.items) {
        let Item::Lines(charts) = item else { continue };
        for series in charts.iter_mut().flat_map(|chart| &mut chart.series) {
            series.points.iter_mut().for_each(|(x, y)| (*x, *y) = (six(*x), six(*y)));
            series.errors.iter_mut().for_each(|error| *error = six(*error));
        }
        charts.iter_mut().for_each(|chart| chart.markers = None);
    }
    page
}

/// Axes, ticks, curves, bands, labels: the script's rules are those of the library.
#[test]
fn the_script_draws_what_the_library_drew() {
    let mut band = compare::hit_ratios();
    band.y.at_least = None;
    let page = Page {
        sections: vec![Section { title: String::new(), items: vec![Item::Lines(vec![band])] }],
        ..Page::default()
    };
    let script = format!(
        "{NOTE} const parts = svg => [...svg.querySelectorAll('path, text, circle')].map(part =>\n\
           [part.tagName, ...['d', 'transform', 'x', 'y', 'stroke', 'stroke-width', 'stroke-dasharray', 'fill', 'font-size', 'text-anchor']\n\
             .map(name => part.getAttribute(name) || ''), part.childElementCount ? '' : part.textContent].join(';'));\n\
         const number = /-?\\d*\\.?\\d+(?:e-?\\d+)?/g;\n\
         const differs = (a, b) => a.replace(number, '#') !== b.replace(number, '#')\n\
           || (a.match(number) || []).some((text, at) => Math.abs(Number(text) - Number(b.match(number)[at])) > 0.021);\n\
         document.querySelectorAll('figure.lines .scroll > svg:first-child').forEach(svg => {{\n\
           const before = parts(svg); svg.dispatchEvent(new KeyboardEvent('keydown', {{ key: '0' }})); const after = parts(svg);\n\
           const other = before.findIndex((text, at) => after[at] === undefined || differs(text, after[at]));\n\
           note(before.length === after.length && other < 0 ? 'same ' + before.length\n\
             : before.length + ' ' + after.length + ' ' + before[other] + ' BUT ' + after[other]); }});"
    );
    for page in [planner::planner_page(12, 60), planner::planner_page(1, 9), compare::comparison_page(), page]
    {
        let Some(dom) = opened(&with_six_digits(page), "", &script) else { return };
        let notes = noted(&dom);
        assert!(!notes.is_empty() && notes.iter().all(|note| note.starts_with("same ")), "{notes:#?}");
    }
}

/// Hides a curve, saves the first chart and the first table in all ways, and says what the files are.
const SAVE: &str = "const pending = [], button = name => \
      [...document.querySelectorAll('figure.lines button')].find(button => button.textContent === name);\n\
    URL.createObjectURL = blob => { pending.push(blob.type === 'image/png' ? 'png ' + (blob.size > 2000) : blob.text()); return '#saved'; };\n\
    HTMLAnchorElement.prototype.click = async function () {\n\
      const name = this.download, text = await pending[pending.length - 1]; say('file', name + ':' + encodeURIComponent(text)); };\n\
    document.querySelectorAll('figure.lines .names button')[1].click();\n\
    ['CSV', 'SVG', 'PNG'].forEach(name => button(name).click()); document.querySelector('.table .files button').click();";

#[test]
fn charts_and_tables_are_saved_as_they_are_seen() {
    let (folder, profile) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = folder.path().join("page.html");
    let html = compare::comparison_page().html().unwrap();
    std::fs::write(&file, html.replace("</body>", &format!("<script>{SAY}{SAVE}</script></body>"))).unwrap();
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    let listened =
        listen(profile.path(), &format!("file://{}", file.display()), |Report { value, .. }, _| {
            let (name, text) = value.split_once(':').expect("a name and a text");
            files.insert(name.to_owned(), unescaped(text));
            files.len() == 4
        });
    if listened.is_none() {
        return;
    }
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    assert_eq!(names, ["at-128-gib.csv", "hit-ratio.csv", "hit-ratio.png", "hit-ratio.svg"]);
    let chart = &files["hit-ratio.csv"];
    assert!(chart.starts_with("series,Cache size,Hit ratio,standard error"), "{chart}");
    assert!(chart.lines().count() == 25 && !chart.contains("tica,"), "three schemes of eight sizes: {chart}");
    let svg = &files["hit-ratio.svg"];
    assert!(!svg.contains("var(") && svg.contains("Synthetic data") && svg.contains("#0072b2"), "{svg}");
    assert_eq!(files["hit-ratio.png"], "png true");
    let table = &files["at-128-gib.csv"];
    assert!(table.starts_with("Scheme,Hit ratio,Mean latency") && table.lines().count() == 5, "{table}");
}

/// Saves the first chart as it is, without its second curve, and zoomed, and says how many marks each picture has, and how many of these
/// are cut off with the plot.
const SAVE_MARKS: &str = "const counts = [], figure = document.querySelector('figure.lines');\n\
    const save = () => [...figure.querySelectorAll('button')].find(button => button.textContent === 'SVG').click();\n\
    URL.createObjectURL = blob => { counts.push(blob.text().then(text => {\n\
      const picture = new DOMParser().parseFromString(text, 'image/svg+xml'), count = what => picture.querySelectorAll(what).length;\n\
      return count('.marker') + ' ' + count('svg.plot .marker'); })); return '#saved'; };\n\
    HTMLAnchorElement.prototype.click = () => {}; save(); figure.querySelectorAll('.names button')[1].click(); save();\n\
    figure.querySelector('svg').dispatchEvent(new KeyboardEvent('keydown', { key: '+' })); save();\n\
    Promise.all(counts).then(all => say('marks', all.join(', ')));";

#[test]
fn saved_charts_have_the_marks_that_follow_sliders() {
    let (folder, profile) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = folder.path().join("page.html");
    let html = planner::planner_page(6, 50).html().unwrap();
    std::fs::write(&file, html.replace("</body>", &format!("<script>{SAY}{SAVE_MARKS}</script></body>")))
        .unwrap();
    let mut marks = String::new();
    let listened =
        listen(profile.path(), &format!("file://{}", file.display()), |Report { value, .. }, _| {
            marks = value;
            true
        });
    if listened.is_some() {
        assert_eq!(marks, "6 0, 5 0, 5 5");
    }
}

/// Percent-encoded text as it was.
fn unescaped(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or("").as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).expect("two digits"));
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).expect("text")
}

/// A page with a scatter whose points are called as the rows of a table below are.
fn named_points() -> Page {
    let names: Vec<String> = (1..=3).map(|at| format!("pair {at}")).collect();
    let mut chart = LineChart::new(
        "Pairs",
        "Time over money",
        Axis::linear("Cost", Unit::Dollars),
        Axis::linear("Time", Unit::Microseconds),
    );
    let points = |from: usize, to: usize| {
        (from..to).map(|at| (1.0 + at as f64, 9.0 - 2.0 * at as f64)).collect::<Vec<_>>()
    };
    chart.series = vec![
        Series::new("This one", Shape::Points, points(1, 2))
            .with_labels(names[1..2].to_vec())
            .tinted(Tint::Chosen),
        Series::new("Others", Shape::Points, [points(0, 1), points(2, 3)].concat())
            .with_labels([&names[0], &names[2]].map(Clone::clone).to_vec())
            .tinted(Tint::Neutral),
    ];
    let rows = Table {
        title: "All".to_owned(),
        columns: vec![
            Column { title: "Pair".to_owned(), cells: Cells::Text(names) },
            Column {
                title: "Cost".to_owned(),
                cells: Cells::Numbers(Unit::Dollars, States::fixed(vec![Some(1.0), Some(2.0), Some(3.0)])),
            },
        ],
    };
    let items = vec![Item::Lines(vec![chart]), Item::Table(rows)];
    Page { sections: vec![Section { title: String::new(), items }], ..Page::default() }
}

#[test]
fn points_lead_to_their_rows_and_rows_show_their_points() {
    let script = format!(
        "{NOTE} {POINT} (async () => {{ const row = () => document.activeElement.cells ? document.activeElement.cells[0].textContent : '-';\n\
         const at = number => {{ const mark = svg.querySelectorAll('g.s path:not(.curve)')[number].getAttribute('transform').match(/[\\d.]+/g); return mark.slice(0, 2).map(Number); }};\n\
         for (const number of [0, 2]) {{ const [x, y] = at(number); await point('pointermove', x, y); note(figure.querySelectorAll('.ring').length);\n\
           await point('pointerdown', x, y); await point('pointerup', x, y); note(row()); }}\n\
         await point('pointerleave', 0, 0); note(figure.querySelectorAll('.ring').length);\n\
         const last = document.querySelectorAll('tbody tr')[2]; last.dispatchEvent(new PointerEvent('pointerenter'));\n\
         note(figure.querySelectorAll('.ring').length); last.dispatchEvent(new PointerEvent('pointerleave')); note(figure.querySelectorAll('.ring').length);\n\
         svg.focus(); for (const key of ['ArrowRight', 'ArrowRight', 'Enter']) svg.dispatchEvent(new KeyboardEvent('keydown', {{ key }})); note(row()); }})();"
    );
    let Some(dom) = opened(&named_points(), "", &script) else { return };
    // What comes first is drawn last: of the marks, that of the chosen pair.
    assert_eq!(noted(&dom), ["1", "pair 1", "1", "pair 2", "0", "1", "0", "pair 2"]);
}

#[test]
fn fields_refuse_what_is_out_of_range_and_errors_are_read() {
    let script = format!(
        "{NOTE} const field = document.getElementById('field0'); const years = document.querySelectorAll('.figure dd')[2];\n\
         field.value = '-3'; field.dispatchEvent(new Event('input')); note(years.textContent);\n\
         note(field.getAttribute('aria-invalid')); const slider = document.getElementById('slider1');\n\
         slider.value = 7; slider.dispatchEvent(new Event('input')); slider.dispatchEvent(new Event('change'));\n\
         note(location.hash); const svg = document.querySelector('figure.lines svg'); svg.focus();\n\
         svg.dispatchEvent(new KeyboardEvent('keydown', {{ key: 'ArrowRight' }}));\n\
         note(document.querySelector('.names em').textContent);"
    );
    let controls = planner::planner_page(2, 10);
    let page = Page { sections: compare::comparison_page().sections, ..controls };
    let Some(dom) = opened(&page, "#slider=999,-4,x&field=,&junk", &script) else { return };
    let notes = noted(&dom);
    assert_eq!(notes[..3], ["–", "true", "#slider=31,7&amp;field=-3,5"]);
    assert!(notes[3].contains(" % ± "), "{notes:?}");
}

#[test]
fn hostile_names_do_nothing_in_a_browser() {
    let evil =
        "</script><img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>";
    let mut page = planner::planner_page(2, 5);
    page.title = "honest".to_owned();
    page.sections[0].items.push(Item::Sentences(States::by(0, vec![vec![evil.to_owned()]; 32])));
    if let Item::Lines(charts) = &mut page.sections[1].items[0] {
        charts[0].series[0].name = evil.to_owned();
    }
    let Some(dom) = opened(&page, "#slider=4", "") else { return };
    assert!(dom.contains("<title>honest</title>") && !dom.contains("<img"));
}
