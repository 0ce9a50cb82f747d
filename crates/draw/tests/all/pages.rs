//! Pages as files: size, safety, determinism.

use lode_draw::*;

use crate::sample::{compare, planner};

#[test]
fn the_same_data_give_the_same_page() {
    assert_eq!(planner::planner_page(5, 20).html(), planner::planner_page(5, 20).html());
    assert_eq!(compare::comparison_page().html(), compare::comparison_page().html());
}

#[test]
fn a_page_of_100_vms_with_200_points_each_stays_below_900_kb() {
    // Drawn curves, and their values for whoever zooms.
    let html = planner::planner_page(100, 200).html().unwrap();
    assert!(html.len() < 900_000, "{} bytes", html.len());
    assert_eq!(html.matches("class=\"curve\"").count(), 100);
}

#[test]
fn a_page_names_no_other_place() {
    for page in [planner::planner_page(3, 20), compare::comparison_page()] {
        let html = page.html().unwrap();
        for word in ["http:", "https:", "//", "@import", "url(", " src="] {
            assert!(!html.contains(word), "{word} in the page");
        }
        assert!(html.contains("default-src 'none'"), "the page forbids itself the network");
        assert!(html.contains("ynthetic"));
    }
}

#[test]
fn names_cannot_leave_their_place() {
    let evil = "</script><script>document.title='owned'</script><!-- \" onload='x' & \u{202e}";
    let mut page = planner::planner_page(2, 5);
    (page.title, page.subtitle, page.footer) = (evil.to_owned(), evil.to_owned(), evil.to_owned());
    page.sliders[0].label = evil.to_owned();
    page.fields[0].suffix = evil.to_owned();
    page.figures[0].label = evil.to_owned();
    page.sections[0].title = evil.to_owned();
    page.sections[0].items.push(Item::Text(evil.to_owned()));
    page.sections[0].items.push(Item::Sentences(States::fixed(vec![evil.to_owned()])));
    let cells = Cells::Text(vec![evil.to_owned()]);
    let columns = vec![Column { title: evil.to_owned(), cells }];
    page.sections[0].items.push(Item::Table(Table { title: evil.to_owned(), columns }));
    let html = page.html().unwrap();
    assert_eq!(html.matches("<script").count(), 2, "the data and the program");
    assert_eq!(html.matches("</script>").count(), 2);
    assert!(!html.contains("<!--") && !html.contains('\u{202e}'));
    let (markup, _) = html.split_once("id=\"data\"").unwrap();
    assert!(!markup.contains("onload='") && markup.contains("onload=&#39;x&#39; &amp;"));
}

#[test]
fn without_its_script_a_page_shows_its_first_state() {
    let page = planner::planner_page(3, 20);
    let html = page.html().unwrap();
    let start = Unit::Bytes.show(page.sliders[1].positions[page.sliders[1].start]);
    assert!(html.contains(&format!("<output for=\"slider1\">{start}</output>")));
    assert!(html.contains("<noscript>") && html.contains(" years</dd>"));
    assert_eq!(html.matches("class=\"bar\"").count(), 6);
}
