//! A picture in SVG as PNG, with the fonts of this computer. It must not know what is drawn.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock};

use resvg::tiny_skia::{Color, Pixmap, Transform};
use resvg::usvg::fontdb::{Database, Family, Query};
use resvg::usvg::{FontResolver, Options, Tree};

use crate::error::CliError;
use crate::output;

/// What print wants; on a screen it is three times what is needed.
const DOTS_PER_INCH: f32 = 300.0;

/// In which SVG counts pixels.
const SVG_DOTS_PER_INCH: f32 = 96.0;

const INCHES_PER_METRE: f32 = 1.0 / 0.0254;

/// Most pixels of a picture, at 4 bytes each.
const MAX_PIXELS: f32 = 100e6;

/// Faces that pictures look good in, the first that is there; without any of them, whatever there is.
const FACES: [&str; 9] = [
    "Helvetica",
    "Arial",
    "Liberation Sans",
    "Nimbus Sans",
    "Noto Sans",
    "DejaVu Sans",
    "FreeSans",
    "Roboto",
    "Open Sans",
];

/// What to do where there are no fonts.
const INSTALL: &str = "install one (Debian and Ubuntu: apt-get install fonts-dejavu-core), or write --svg";

/// Most characters that a warning names.
const MOST_NAMED: usize = 8;

/// The fonts of this computer, and the one that texts are in.
struct Fonts {
    all: Arc<Database>,
    is_any: bool,
}

/// Looks through the fonts once, because there may be thousands.
fn fonts() -> &'static Fonts {
    static FOUND: OnceLock<Fonts> = OnceLock::new();
    FOUND.get_or_init(|| {
        let mut all = Database::new();
        all.load_system_fonts();
        Fonts::of(all)
    })
}

impl Fonts {
    fn of(mut all: Database) -> Fonts {
        let is_there =
            |face: &str| all.query(&Query { families: &[Family::Name(face)], ..Query::default() }).is_some();
        let preferred = FACES.into_iter().find(|face| is_there(face)).map(str::to_owned);
        // What it lacks is taken from others.
        let any = || Some(all.faces().next()?.families.first()?.0.clone());
        let face = preferred.or_else(any);
        let is_any = face.is_some();
        if let Some(face) = face {
            all.set_sans_serif_family(&face);
            // What is asked last, where no other family is there.
            all.set_serif_family(&face);
        }
        Fonts { all: Arc::new(all), is_any }
    }

    fn check(&self) -> Result<(), CliError> {
        if self.is_any { Ok(()) } else { Err(without_font()) }
    }

    /// The picture, and the characters that no font has.
    fn draw(&self, svg: &str) -> Result<(Vec<u8>, BTreeSet<char>), CliError> {
        self.check()?;
        let missing = Mutex::new(BTreeSet::new());
        let find = FontResolver::default_fallback_selector();
        let select_fallback = |wanted: char, used: &[_], all: &mut Arc<Database>| {
            let found = find(wanted, used, all);
            if found.is_none() {
                missing.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(wanted);
            }
            found
        };
        let options = Options {
            fontdb: Arc::clone(&self.all),
            dpi: SVG_DOTS_PER_INCH,
            font_resolver: FontResolver {
                select_font: FontResolver::default_font_selector(),
                select_fallback: Box::new(select_fallback),
            },
            ..Options::default()
        };
        let tree = Tree::from_str(svg, &options).map_err(|error| cannot(&error))?;
        let bytes = pixels(&tree)?;
        drop((tree, options));
        let missing = missing.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        // Symbols are fonts, too.
        if missing.iter().any(char::is_ascii_alphanumeric) {
            return Err(without_font());
        }
        Ok((bytes, missing))
    }
}

fn without_font() -> CliError {
    CliError::Failure(format!("A PNG needs a font for its text, and this computer has none; {INSTALL}"))
}

/// That there is a font, before anything is computed that is to be drawn.
///
/// # Errors
/// When there is none.
pub fn check() -> Result<(), CliError> {
    fonts().check()
}

/// The picture as PNG. A warning says which characters no font has.
///
/// # Errors
/// When there is no font, or the picture is too large.
pub fn png(svg: &str) -> Result<Vec<u8>, CliError> {
    let (bytes, missing) = fonts().draw(svg)?;
    if !missing.is_empty() {
        output::warn(&about_missing(&missing));
    }
    Ok(bytes)
}

fn about_missing(missing: &BTreeSet<char>) -> String {
    let named: Vec<String> = missing.iter().take(MOST_NAMED).map(char::to_string).collect();
    let more = match missing.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "no font of this computer has {}{more}; in the PNG a box or nothing stands there; install a font that has \
         them, or write --svg",
        named.join(" ")
    )
}

fn pixels(tree: &Tree) -> Result<Vec<u8>, CliError> {
    let zoom = DOTS_PER_INCH / SVG_DOTS_PER_INCH;
    let size = tree.size();
    let [width, height] = [size.width(), size.height()].map(|length| (length * zoom).ceil());
    let too_large = || {
        let message = format!("A PNG of {width} x {height} pixels is too large; write --svg");
        CliError::Failure(message)
    };
    if width * height > MAX_PIXELS {
        return Err(too_large());
    }
    let mut pixmap = Pixmap::new(width as u32, height as u32).ok_or_else(too_large)?;
    // The picture's ground ends within the last row of pixels.
    pixmap.fill(Color::WHITE);
    resvg::render(tree, Transform::from_scale(zoom, zoom), &mut pixmap.as_mut());
    let colours: Vec<u8> = pixmap.pixels().iter().flat_map(|at| [at.red(), at.green(), at.blue()]).collect();
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, pixmap.width(), pixmap.height());
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let per_metre = (DOTS_PER_INCH * INCHES_PER_METRE).round() as u32;
    let dots = png::PixelDimensions { xppu: per_metre, yppu: per_metre, unit: png::Unit::Meter };
    encoder.set_pixel_dims(Some(dots));
    let mut writer = encoder.write_header().map_err(|error| cannot(&error))?;
    writer.write_image_data(&colours).map_err(|error| cannot(&error))?;
    writer.finish().map_err(|error| cannot(&error))?;
    Ok(bytes)
}

fn cannot(error: &dyn std::fmt::Display) -> CliError {
    CliError::Failure(format!("Cannot draw the PNG: {error}; please report this, and write --svg"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTH_PT: u32 = 72;

    fn text(text: &str) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH_PT}pt\" height=\"12pt\" viewBox=\"0 0 72 12\" \
             font-family=\"No Such Face, sans-serif\" font-size=\"8\"><rect width=\"72\" height=\"12\" fill=\"#ffffff\"/>\
             <text x=\"2\" y=\"9\" fill=\"#1a1a1a\">{text}</text></svg>"
        )
    }

    /// Its width, and how many of its pixels are not white.
    fn look(bytes: &[u8]) -> (u32, usize) {
        let decoder = png::Decoder::new(std::io::Cursor::new(bytes));
        let mut reader = decoder.read_info().expect("a picture");
        let mut colours = vec![0; reader.output_buffer_size().expect("it fits")];
        reader.next_frame(&mut colours).expect("pixels");
        (reader.info().width, colours.chunks(3).filter(|at| at.iter().any(|&part| part < 200)).count())
    }

    #[test]
    fn text_is_drawn_whatever_the_family_and_what_no_font_has_is_known() {
        let (bytes, missing) = fonts().draw(&text("web server")).expect("a picture");
        let (width, inked) = look(&bytes);
        assert_eq!(width, WIDTH_PT * DOTS_PER_INCH as u32 / 72);
        assert!(inked > 200 && missing.is_empty(), "{inked} {missing:?}");
        let (_, nothing) = look(&fonts().draw(&text("")).expect("a picture").0);
        assert_eq!(nothing, 0);
        // One of those that stay unassigned.
        let (_, missing) = fonts().draw(&text("a\u{378}")).expect("a picture");
        assert_eq!(missing.into_iter().collect::<String>(), "\u{378}");
        assert!(about_missing(&BTreeSet::from(['x'])).contains("has x;"));
    }

    #[test]
    fn without_fonts_there_is_no_picture_without_text() {
        let error = Fonts::of(Database::new()).draw(&text("a")).map(|_| ()).expect_err("no font");
        assert!(error.to_string().contains("this computer has none"), "{error}");
    }
}
