//! Spellings of options that there were, answered with the ones that there are. It must not know what the options do.

use std::ffi::{OsStr, OsString};

use crate::amounts::command_line;

/// What to write instead of `arguments`, which begin with the program's name; none where nothing of them is out of use.
pub fn out_of_use(arguments: &[OsString]) -> Option<String> {
    let words: Vec<String> =
        arguments.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    // Behind it there are names alone.
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    for at in 0..end {
        let word = words[at].as_str();
        if let Some(rest) = word.strip_prefix("--out").filter(|rest| rest.is_empty() || rest.starts_with('='))
        {
            let new = with(&words, at..at + 1, [&format!("--output{rest}")]);
            return Some(format!("--out is --output, or -o; write: {new}"));
        }
        let next = words.get(at + 1).map(String::as_str);
        let Some(file) = next.filter(|_| word == "--json") else { continue };
        if file == "-" && words[0] == "replay" {
            let new = with(&words, at..at + 2, [word]);
            return Some(format!(
                "--json alone goes to standard output; write: {new} (for a trace on standard input, - before --json)"
            ));
        }
        if OsStr::new(file).to_string_lossy().to_ascii_lowercase().ends_with(".json") {
            let new = with(&words, at..at + 2, [&format!("--json={file}")]);
            return Some(format!("--json takes its file with =; write: {new}"));
        }
    }
    if let Some(new) = output_as_second_word(&words[..end]) {
        return Some(format!("The output is an option; write: {new}"));
    }
    None
}

/// Options of `lode trace convert` and `synth` that the next word belongs to.
const WITH_VALUES: [&str; 7] =
    ["--format", "--unit", "--on-error", "--requests", "--seed", "--scale", "--show"];

/// `lode trace convert IN OUT` and `lode trace synth PROFILE OUT`, as they are written now.
fn output_as_second_word(words: &[String]) -> Option<String> {
    let [group, tool, rest @ ..] = words else { return None };
    let is_output = |word: &String| word.starts_with("-o") || word.starts_with("--output");
    if group != "trace" || !["convert", "synth"].contains(&tool.as_str()) || rest.iter().any(is_output) {
        return None;
    }
    let is_free = |&at: &usize| {
        let belongs = at > 0 && WITH_VALUES.contains(&rest[at - 1].as_str());
        !belongs && (rest[at] == "-" || !rest[at].starts_with('-'))
    };
    let free: Vec<usize> = (0..rest.len()).filter(is_free).collect();
    let &[_, output] = &free[..] else { return None };
    Some(with(words, 2 + output..2 + output + 1, ["-o", &rest[output]]))
}

/// The command line with other words in place of those of a range.
fn with<const N: usize>(words: &[String], range: std::ops::Range<usize>, new: [&str; N]) -> String {
    let mut all = vec!["lode".to_owned()];
    all.extend_from_slice(&words[..range.start]);
    all.extend(new.map(str::to_owned));
    all.extend_from_slice(&words[range.end..]);
    command_line(&all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_new_spelling_is_a_whole_command() {
        for (old, new) in [
            ("lode trace head a.csv --out b.lode", Some("write: lode trace head a.csv --output b.lode")),
            ("lode trace sort a.csv --out=b.lode", Some("write: lode trace sort a.csv --output=b.lode")),
            (
                "lode replay a.csv --json r.json --dram 1M",
                Some("write: lode replay a.csv --json=r.json --dram 1M"),
            ),
            ("lode replay a.csv --json -", Some("write: lode replay a.csv --json (for")),
            ("lode curve --json -", None),
            ("lode curve --json a.csv", None),
            ("lode trace convert a.csv b.lode", Some("write: lode trace convert a.csv -o b.lode")),
            (
                "lode trace convert --unit 4KiB - b.lode",
                Some("write: lode trace convert --unit 4KiB - -o b.lode"),
            ),
            (
                "lode trace synth hm_1 b.lode --seed 2",
                Some("write: lode trace synth hm_1 -o b.lode --seed 2"),
            ),
            ("lode trace synth --show hm_1", None),
            ("lode trace convert a.csv", None),
            ("lode trace convert a.csv -o b.lode", None),
            ("lode trace sort a.csv --output b.lode", None),
            ("lode trace sort -o b.lode -- --out", None),
            ("lode", None),
        ] {
            let words: Vec<OsString> = old.split(' ').map(OsString::from).collect();
            let found = out_of_use(&words);
            assert_eq!(found.is_some(), new.is_some(), "{old}: {found:?}");
            assert!(found.is_none_or(|found| found.contains(new.unwrap_or_default())), "{old}");
        }
    }
}
