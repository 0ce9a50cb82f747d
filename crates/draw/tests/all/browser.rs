//! Pages in headless Chromium: what the script makes of them, whether it complains, how they read numbers.

use lode_draw::*;

use crate::chromium::{self, texts};
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
    Unit::Bytes.show(chart.panels[0].parts[0].values.values()[31][0])
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
fn curves_are_read_out_and_light_up() {
    let page = planner::planner_page(10, 100);
    let script = format!(
        "{NOTE} const svg = document.querySelector('figure.lines svg');\n\
         const at = (x, y) => {{ const p = new DOMPoint(x, y).matrixTransform(svg.getScreenCTM());\n\
           svg.dispatchEvent(new PointerEvent('pointermove', {{ clientX: p.x, clientY: p.y }})); }};\n\
         at(500, 200); const tip = document.querySelector('figure.lines .tip');\n\
         note([...tip.querySelectorAll('em')].map(em => em.textContent).join('|')); note(tip.querySelectorAll('.near').length);\n\
         note(tip.querySelector('.near span').textContent === 'vm0' + svg.querySelector('g.s.on').dataset.s);\n\
         note(document.querySelectorAll('tbody tr.on').length); at(5, 5); note(tip.hidden);\n\
         document.querySelectorAll('.names button')[9].click(); note(svg.querySelector('g.s.on').dataset.s);\n\
         note(document.querySelector('.row.on .name').textContent);"
    );
    let Some(dom) = opened(&page, "", &script) else { return };
    let notes = noted(&dom);
    let read: Vec<f64> =
        notes[0].split('|').map(|text| text.trim_end_matches(" %").parse().unwrap()).collect();
    assert_eq!(read.len(), 8, "ten curves, of which the nearest are read");
    assert!(read.windows(2).all(|pair| pair[0] >= pair[1]), "as they lie above each other: {read:?}");
    assert_eq!(notes[1..], ["1", "true", "1", "true", "9", "vm09"]);
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
         note(document.querySelector('.tip em').textContent);"
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
