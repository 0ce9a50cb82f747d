//! Every scheme's page names every setting with its default, and the README leads to the page.

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
