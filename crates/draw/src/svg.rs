//! Writes SVG elements. It must not know charts.

use crate::style::Style;
use crate::text::{clean_text, escape, wrapped};

/// Height of a line of a note, in letters.
const NOTE_LINE_EM: f64 = 1.3;

/// Where a text stands about its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// One picture, element by element.
pub(crate) struct Svg {
    pub out: String,
}

impl Svg {
    /// Begins a picture that stands alone: with its namespace, size, title and description.
    /// The style's note stands below `height_px`.
    pub fn alone(style: &Style, height_px: f64, title: &str, description: &str) -> Svg {
        let note = wrapped(&clean_text(&style.note), style.width_px - 2.0 * style.font_px, style.font_px);
        let line_px = NOTE_LINE_EM * style.font_px;
        let whole_px =
            if note.is_empty() { height_px } else { height_px + (note.len() as f64 + 0.5) * line_px };
        let (width, height, unit) = (num(style.width_px), num(whole_px), style.length_unit);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}{unit}\" height=\"{height}{unit}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\" font-family=\"Helvetica, Arial, 'Liberation Sans', sans-serif\" \
             font-size=\"{}\">\n",
            num(style.font_px)
        );
        out.push_str(&format!("<title>{}</title>\n<desc>{}</desc>\n", escape(title), escape(description)));
        out.push_str(&format!(
            "<rect width=\"{width}\" height=\"{height}\" fill=\"{}\"/>\n",
            style.theme.ground
        ));
        let mut svg = Svg { out };
        for (line, text) in note.iter().enumerate() {
            let y = height_px + (line as f64 + 0.75) * line_px;
            svg.text((style.font_px, y), Anchor::Start, style.theme.muted, "", text);
        }
        svg
    }

    /// Begins a picture inside a page, whose caption has the id `caption`.
    pub fn inside(style: &Style, height_px: f64, caption: &str) -> Svg {
        let (width, height) = (num(style.width_px), num(height_px));
        let out = format!(
            "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"{caption}\" font-size=\"{}\">\n",
            num(style.font_px)
        );
        Svg { out }
    }

    /// Ends the picture.
    pub fn finish(mut self) -> String {
        self.out.push_str("</svg>\n");
        self.out
    }

    /// An element without contents. Values of attributes must be safe or escaped.
    pub fn element(&mut self, text: &str) {
        self.out.push('<');
        self.out.push_str(text);
        self.out.push_str("/>\n");
    }

    /// Text, which is escaped. `more` are further attributes, which are not.
    pub fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, fill: &str, more: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let blank = if more.is_empty() { "" } else { " " };
        self.out.push_str(&format!(
            "<text x=\"{}\" y=\"{}\" fill=\"{fill}\"{anchor}{blank}{more}>{}</text>\n",
            num(x),
            num(y),
            escape(text)
        ));
    }

    /// A straight line.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: &str, width_px: f64) {
        self.element(&format!(
            "path d=\"M{} {}L{} {}\" stroke=\"{stroke}\" stroke-width=\"{}\" fill=\"none\"",
            num(from.0),
            num(from.1),
            num(to.0),
            num(to.1),
            num(width_px)
        ));
    }

    /// Opens a group. Values of attributes must be safe or escaped.
    pub fn open(&mut self, attributes: &str) {
        self.out.push_str(&format!("<g {attributes}>\n"));
    }

    /// Closes the group opened last.
    pub fn close(&mut self) {
        self.out.push_str("</g>\n");
    }

    /// The tool tip and accessible name of the group opened last.
    pub fn tip(&mut self, text: &str) {
        self.out.push_str(&format!("<title>{}</title>\n", escape(text)));
    }
}

/// A length with at most two decimals and no more characters than it needs.
pub(crate) fn num(value: f64) -> String {
    hundredths(to_hundredths(value))
}

/// A length in hundredths of a pixel, in which drawn curves are exact.
pub(crate) fn to_hundredths(value: f64) -> i64 {
    (value * 100.0).round() as i64
}

fn hundredths(value: i64) -> String {
    let (sign, size) = (if value < 0 { "-" } else { "" }, value.unsigned_abs());
    match (size / 100, size % 100) {
        (whole, 0) => format!("{sign}{whole}"),
        (whole, part) => {
            let whole = if whole == 0 { String::new() } else { whole.to_string() };
            let part = if part.is_multiple_of(10) { format!("{}", part / 10) } else { format!("{part:02}") };
            format!("{sign}{whole}.{part}")
        }
    }
}

/// The data of a path through points in hundredths of a pixel, in relative steps, which are the shortest.
pub(crate) fn path_data(points: &[(i64, i64)]) -> String {
    let Some(&(mut x, mut y)) = points.first() else { return String::new() };
    let mut data = format!("M{} {}", hundredths(x), hundredths(y));
    for &(to_x, to_y) in &points[1..] {
        let (dx, dy) = (to_x - x, to_y - y);
        match (dx, dy) {
            (0, 0) => continue,
            (_, 0) => data.push_str(&format!("h{}", hundredths(dx))),
            (0, _) => data.push_str(&format!("v{}", hundredths(dy))),
            _ if dy < 0 => data.push_str(&format!("l{}{}", hundredths(dx), hundredths(dy))),
            _ => data.push_str(&format!("l{} {}", hundredths(dx), hundredths(dy))),
        }
        (x, y) = (to_x, to_y);
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_short() {
        let cases =
            [(0.0, "0"), (-0.5, "-.5"), (12.0, "12"), (7.12345, "7.12"), (0.05, ".05"), (-2.999, "-3")];
        for (value, text) in cases {
            assert_eq!(num(value), text);
        }
    }

    #[test]
    fn paths_are_relative_and_do_not_drift() {
        let points = [(0, 1000), (333, 1000), (333, 900), (333, 900), (666, 950), (999, 899)];
        assert_eq!(path_data(&points), "M0 10h3.33v-1l3.33 .5l3.33-.51");
        assert_eq!(path_data(&[]), "");
    }
}
