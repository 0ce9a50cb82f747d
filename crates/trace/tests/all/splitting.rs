//! Names of the files that volumes are written to.

use std::collections::HashSet;
use std::path::Path;

use lode_trace::file_names;
use lode_trace::limits::MAX_FILE_NAME_BYTES;
use proptest::prelude::*;

fn names_of(volumes: &[&str]) -> Vec<String> {
    file_names(&volumes.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())
}

#[test]
fn file_names_are_safe_and_different() {
    let volumes = ["hm_0", "/dev/sda", "..", "a b", "a_b", "a_b-2", "A_B", "\u{fc}ber", "8,16", "..", ""];
    let expected =
        ["hm_0", "_dev_sda", "_.", "a_b", "a_b-2", "a_b-2-2", "A_B-3", "\u{fc}ber", "8_16", "_.-2", "_"];
    assert_eq!(names_of(&volumes), expected);
}

proptest! {
    #[test]
    fn no_name_leaves_the_folder_or_meets_another(
        volumes in proptest::collection::vec(prop_oneof![r"[./\\a-cA-C_\-]{0,4}", ".{0,260}"], 0..40),
    ) {
        let names = file_names(&volumes);
        prop_assert_eq!(names.len(), volumes.len());
        let different: HashSet<_> = names.iter().map(|name| name.to_lowercase()).collect();
        prop_assert_eq!(different.len(), names.len());
        for name in names {
            prop_assert!(!name.is_empty() && !name.starts_with('.') && name.len() <= MAX_FILE_NAME_BYTES + 8);
            prop_assert!(!name.chars().any(|char| char == '/' || char.is_control()), "{}", name);
            prop_assert_eq!(Path::new(&name).file_name(), Some(name.as_ref()));
        }
    }
}
