//! Amounts in words: sizes, which are those of the whole project, and counts.

use lode_hardware::time::{DAYS_PER_YEAR, HOURS_PER_DAY};
pub use lode_types::{parse_size, show_size};

/// Years, or days or hours where those would be none.
pub fn show_life(years: f64) -> String {
    let days = years * DAYS_PER_YEAR;
    match days {
        _ if years >= 1.0 => format!("{years:.1} years"),
        _ if days >= 1.0 => format!("{days:.0} days"),
        _ => format!("{:.2} hours", days * HOURS_PER_DAY),
    }
}

/// A size as short as it can be written exactly.
pub fn exact_size(bytes: u64) -> String {
    let shown = show_size(bytes);
    if shown.contains('.') { bytes.to_string() } else { shown }
}

/// The same as one word, for a command line.
pub fn size_word(bytes: u64) -> String {
    exact_size(bytes).replace(' ', "")
}

/// The path of a file as a word that no command takes for an option. `-` stays what it is, standard input.
pub fn path_word(path: &str) -> String {
    if path.starts_with('-') && path != "-" { format!("./{path}") } else { path.to_owned() }
}

/// Words as a shell takes them.
pub fn command_line(words: &[String]) -> String {
    let quoted = |word: &String| {
        let plain = |char: char| char.is_ascii_alphanumeric() || "/._-+,:=@%".contains(char);
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// A number and what it counts: "1 volume", "2 volumes".
pub fn show_count(number: u64, singular: &str) -> String {
    format!("{number} {singular}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_words_for_what_they_are() {
        let words = ["lode", "a b.csv", "it's", "", "c/d_0.lode.zst", "$x*"].map(str::to_owned);
        assert_eq!(command_line(&words), r"lode 'a b.csv' 'it'\''s' '' c/d_0.lode.zst '$x*'");
    }

    #[test]
    fn no_path_is_an_option() {
        for (path, word) in
            [("-x.csv", "./-x.csv"), ("--y/z", "./--y/z"), ("-", "-"), ("./-", "./-"), ("a-b", "a-b")]
        {
            assert_eq!(path_word(path), word);
        }
    }

    #[test]
    fn exact_sizes_are_read_as_the_same_bytes() {
        for (bytes, shown) in [(1 << 20, "1MiB"), (4096 * 257, "1052672"), (5, "5B"), (0, "0B")] {
            assert_eq!((size_word(bytes).as_str(), parse_size(shown)), (shown, Ok(bytes)));
            assert_eq!(parse_size(&exact_size(bytes)), Ok(bytes));
        }
    }

    #[test]
    fn a_short_life_is_told_in_days_or_hours() {
        for (years, expected) in
            [(28.74, "28.7 years"), (1.0, "1.0 years"), (0.5, "182 days"), (0.000_018_02, "0.16 hours")]
        {
            assert_eq!(show_life(years), expected);
        }
    }
}
