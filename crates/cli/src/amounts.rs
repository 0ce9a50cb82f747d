//! Amounts in words: sizes, which are those of the whole project, and counts.

pub use lode_plan::show_life;
pub use lode_types::{parse_daily_bytes, parse_size, show_size};

/// A size in the largest unit in which it is a whole number.
pub fn exact_size(bytes: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let whole = units.into_iter().find(|(_, shift)| bytes > 0 && bytes.is_multiple_of(1 << shift));
    whole.map_or_else(|| format!("{bytes} B"), |(unit, shift)| format!("{} {unit}", bytes >> shift))
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
        for (bytes, shown) in [(1 << 20, "1MiB"), (4096 * 257, "1028KiB"), (5, "5B"), (0, "0B")] {
            assert_eq!((size_word(bytes).as_str(), parse_size(shown)), (shown, Ok(bytes)));
            assert_eq!(parse_size(&exact_size(bytes)), Ok(bytes));
        }
    }
}
