//! Spellings of options that there were, or that are written elsewhere, answered with the ones that there are. It must not know what
//! the options do.

use std::ffi::OsString;

use crate::amounts::command_line;

/// Commands whose results go where options of their own say.
const WITH_RESULTS: [&str; 4] = ["compare", "curve", "replay", "size"];

/// Tools that are commands of `lode trace`.
const TRACE_TOOLS: [&str; 8] = ["convert", "filter", "fit", "head", "info", "sort", "split", "synth"];

/// What to write instead of `arguments`, which begin with the program's name; none where nothing of them is out of use.
/// `is_file` says whether there is a file of this name.
pub fn out_of_use(arguments: &[OsString], is_file: impl Fn(&str) -> bool) -> Option<String> {
    let words: Vec<String> =
        arguments.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    // Behind it there are names alone.
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let command = words.first().map_or("", String::as_str);
    if TRACE_TOOLS.contains(&command) {
        let new = with(&words, 0..1, ["trace", command]);
        return Some(format!("lode {command} is a command of lode trace; write: {new}"));
    }
    if let Some(said) = (0..end).find_map(|at| of_word(&words, at, &is_file)) {
        return Some(said);
    }
    if let Some(new) = output_as_second_word(&words[..end]) {
        return Some(format!("The output is an option; write: {new}"));
    }
    None
}

/// The same for the word at one place.
fn of_word(words: &[String], at: usize, is_file: &impl Fn(&str) -> bool) -> Option<String> {
    let (command, word) = (words[0].as_str(), words[at].as_str());
    let is =
        |option: &str| word.strip_prefix(option).is_some_and(|rest| rest.is_empty() || rest.starts_with('='));
    if WITH_RESULTS.contains(&command) && (word == "-o" || is("--output") || is("--out")) {
        let pictures = if command == "replay" { "" } else { ", --html FILE, --svg FILE, --png FILE" };
        return Some(format!(
            "Results of lode {command} go to --json=FILE, --csv=FILE{pictures}; write one of these for {word}"
        ));
    }
    if is("--out") {
        let new = with(words, at..at + 1, [&word.replacen("--out", "--output", 1)]);
        return Some(format!("--out is --output, or -o; write: {new}"));
    }
    let file = words.get(at + 1).filter(|_| ["--json", "--csv"].contains(&word))?;
    let with_file = || with(words, at..at + 2, [&format!("{word}={file}")]);
    let is_named = |ending: &str| file.to_ascii_lowercase().ends_with(ending);
    match word {
        "--json" if file == "-" && command == "replay" => Some(format!(
            "--json alone goes to standard output; write: {} (for a trace on standard input, - before --json)",
            with(words, at..at + 2, [word])
        )),
        "--json" if is_named(".json") => {
            Some(format!("--json takes its file with =; write: {}", with_file()))
        }
        // Traces are CSV, too.
        "--csv" if is_named(".csv") && !is_file(file) => {
            Some(format!("--csv takes its file with =, and there is no trace {file}; write: {}", with_file()))
        }
        _ => None,
    }
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
            ("lode curve a.csv --csv b.csv", Some("write: lode curve a.csv --csv=b.csv")),
            ("lode curve --csv a.csv", None),
            ("lode size a.csv -o b.csv", Some("go to --json=FILE, --csv=FILE, --html FILE")),
            ("lode replay a.csv --output=b.csv", Some("write one of these for --output=b.csv")),
            ("lode size a.csv --out b.csv", Some("write one of these for --out")),
            ("lode info a.csv b.csv", Some("write: lode trace info a.csv b.csv")),
            ("lode trace sort a.csv --output b.lode", None),
            ("lode trace sort -o b.lode -- --out", None),
            ("lode", None),
        ] {
            let words: Vec<OsString> = old.split(' ').map(OsString::from).collect();
            let found = out_of_use(&words, |name| name == "a.csv");
            assert_eq!(found.is_some(), new.is_some(), "{old}: {found:?}");
            assert!(found.is_none_or(|found| found.contains(new.unwrap_or_default())), "{old}");
        }
    }
}
