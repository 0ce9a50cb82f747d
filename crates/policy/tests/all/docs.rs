//! Every scheme's page names every setting with its default.

use lode_policy::all_schemes;

#[test]
fn every_setting_is_on_its_schemes_page() {
    for scheme in all_schemes() {
        let path = format!("{}/../../docs/schemes/{}.md", env!("CARGO_MANIFEST_DIR"), scheme.name);
        let page = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        for info in scheme.setting_infos() {
            let row = format!("| `{}` | {} |", info.key, info.default);
            assert!(page.contains(&row), "{path} lacks a row that starts with {row}");
        }
    }
}
