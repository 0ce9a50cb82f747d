//! Where the worked examples are.

use serde_json::Value;

/// The worked example of this name, or `None` as from [`vectors`].
pub fn vector(key: &str) -> Option<Value> {
    let vector = vectors()?[key].take();
    assert!(!vector.is_null(), "{key} is not in vectors.json");
    Some(vector)
}

/// The worked examples of the papers, or `None` (and one line) where they are not installed.
pub fn vectors() -> Option<Value> {
    let shared = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared");
    if !std::path::Path::new(shared).exists() {
        println!("skipped: ../shared is absent");
        return None;
    }
    let text = std::fs::read_to_string(format!("{shared}/vectors.json")).expect("vectors.json is readable");
    Some(serde_json::from_str(&text).expect("vectors.json is JSON"))
}
