//! Text from anywhere made fit for SVG and HTML, and how wide it will be. It must not know what is drawn.

use crate::limits::{MAX_NAME_CHARS, MAX_TEXT_CHARS};

/// Stands for a character that is not shown.
const REPLACEMENT: char = '\u{fffd}';

/// Whether a character may not be in XML, or changes how the text around it is read.
fn is_misleading(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}')
}

fn clean(text: &str, most: usize) -> String {
    let mut cleaned = String::with_capacity(text.len().min(most * 4));
    for (at, c) in text.chars().enumerate() {
        if at == most {
            cleaned.push('…');
            break;
        }
        cleaned.push(if is_misleading(c) { REPLACEMENT } else { c });
    }
    cleaned
}

/// A name with what could mislead replaced, and cut at the limit.
pub(crate) fn clean_name(name: &str) -> String {
    clean(name, MAX_NAME_CHARS)
}

/// A paragraph with what could mislead replaced, and cut at the limit. Line ends become blanks.
pub(crate) fn clean_text(text: &str) -> String {
    clean(&text.replace(['\n', '\r', '\t'], " "), MAX_TEXT_CHARS)
}

/// Escapes text for XML and HTML, in contents and in quoted attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Width of a character in ems: an estimate for the common sans-serif faces, as wide as in the widest of them, so that nothing
/// is cut off.
fn char_em(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '|' | '!' | '\'' => 0.33,
        'f' | 't' | 'r' | ' ' | '(' | ')' | '[' | ']' | '-' | '/' => 0.42,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.97,
        '0'..='9' | 'a'..='z' | '$' | '_' | '?' => 0.63,
        'A'..='Z' | '+' | '<' | '>' | '=' | '~' | '#' | '&' => 0.78,
        '\u{0080}'..='\u{1fff}' => 0.72,
        '…' => 1.0,
        c if c.is_ascii() => 0.64,
        _ => 1.1,
    }
}

/// Estimated width of a text, in the unit of `font_px`.
pub(crate) fn width_px(text: &str, font_px: f64) -> f64 {
    text.chars().map(char_em).sum::<f64>() * font_px
}

/// The text, or its beginning and end around an ellipsis, so that it is at most `most_px` wide. Numbers that tell names
/// apart stand at the end, so the end is kept.
pub(crate) fn shorten(text: &str, most_px: f64, font_px: f64) -> String {
    if width_px(text, font_px) <= most_px {
        return text.to_owned();
    }
    let chars: Vec<char> = text.chars().collect();
    let (mut head, mut tail, mut left) = (0, chars.len(), most_px / font_px - char_em('…'));
    while head < tail {
        // Two of the beginning for each one of the end.
        let from_end = (head + chars.len() - tail) % 3 == 2;
        let next = if from_end { chars[tail - 1] } else { chars[head] };
        left -= char_em(next);
        if left < 0.0 {
            break;
        }
        if from_end { tail -= 1 } else { head += 1 }
    }
    chars[..head].iter().chain(&['…']).chain(&chars[tail..]).collect()
}

/// Lines of at most this width, broken at blanks; a word that is wider is shortened. None of an empty text.
pub(crate) fn wrapped(text: &str, most_px: f64, font_px: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        match lines.last_mut() {
            Some(line) if width_px(&format!("{line} {word}"), font_px) <= most_px => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(shorten(word, most_px, font_px)),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_blanks_where_they_are_full() {
        let most = width_px("synthetic: web", 10.0);
        assert_eq!(wrapped("synthetic: web and mail", most, 10.0), ["synthetic: web", "and mail"]);
        let long = wrapped("synthetic:-and-no-blank a", most, 10.0);
        assert!(long[0].contains('…') && width_px(&long[0], 10.0) <= most && long[1..] == ["a"], "{long:?}");
        assert_eq!(wrapped("  ", most, 10.0), [""; 0]);
    }

    #[test]
    fn what_misleads_is_replaced() {
        assert_eq!(clean_name("a\u{0}b\u{202e}c\n\u{ffff}"), "a\u{fffd}b\u{fffd}c\u{fffd}\u{fffd}");
        assert_eq!(clean_text("two\nlines"), "two lines");
        let long = "x".repeat(MAX_NAME_CHARS + 1);
        assert_eq!(clean_name(&long).chars().count(), MAX_NAME_CHARS + 1);
        assert!(clean_name(&long).ends_with('…'));
    }

    #[test]
    fn markup_is_escaped() {
        assert_eq!(escape("<a b='c' d=\"e\">&"), "&lt;a b=&#39;c&#39; d=&quot;e&quot;&gt;&amp;");
    }

    #[test]
    fn shortened_text_fits_and_keeps_both_ends() {
        let name = "customer-database-primary-volume-0017";
        for most_px in [20.0, 60.0, 100.0, 150.0] {
            let short = shorten(name, most_px, 10.0);
            assert!(width_px(&short, 10.0) <= most_px, "{short} at {most_px}");
            assert!(short.contains('…') && short.chars().count() < name.len());
        }
        assert!(shorten(name, 100.0, 10.0).starts_with("custo"));
        assert!(shorten(name, 100.0, 10.0).ends_with("17"));
        assert_eq!(shorten(name, 1000.0, 10.0), name);
        assert_eq!(shorten("", 0.0, 10.0), "");
    }
}
