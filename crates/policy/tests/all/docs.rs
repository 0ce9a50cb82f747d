//! Every scheme's page names every setting with its default, and the README leads to the page. The guide to a new scheme shows
//! one as it is.

use lode_policy::all_schemes;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn text_of(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn every_setting_is_on_its_schemes_page() {
    let readme = text_of(&format!("{ROOT}/README.md"));
    for scheme in all_schemes() {
        let page_path = format!("docs/schemes/{}.md", scheme.name);
        assert!(readme.contains(&format!("[{}]({page_path})", scheme.name)), "README.md lacks {page_path}");
        let path = format!("{ROOT}/{page_path}");
        let page = text_of(&path);
        for info in scheme.setting_infos() {
            let row = format!("| `{}` | {} |", info.key, info.default);
            assert!(page.contains(&row), "{path} lacks a row that starts with {row}");
        }
    }
}

/// What the guide shows is what is compiled, registered and tested.
#[test]
fn contributing_shows_a_scheme_as_it_is() {
    let guide = text_of(&format!("{ROOT}/CONTRIBUTING.md"));
    let source = |file: &str| text_of(&format!("{ROOT}/crates/policy/src/{file}"));
    let scheme = source("schemes/sieve.rs");
    assert!(guide.contains(&format!("```rust\n{scheme}```\n")), "CONTRIBUTING.md shows another sieve.rs");
    for (file, line) in
        [("schemes/mod.rs", "pub mod sieve;"), ("registry.rs", "Sieve(sieve::Sieve): sieve::INFO;")]
    {
        assert!(guide.contains(line) && source(file).contains(line), "{file} and CONTRIBUTING.md: {line}");
    }
}
