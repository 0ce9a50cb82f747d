//! Pictures in pixels: they say what the same ones in SVG say.

use crate::common::*;

/// Of the PNG; the SVG counts points.
const PIXELS_PER_POINT: f64 = 300.0 / 72.0;

/// Grid lines are lighter.
const INK: u8 = 200;

/// A picture's pixels, three bytes each.
struct Pixels {
    width: usize,
    colours: Vec<u8>,
}

impl Pixels {
    fn load(file: &str) -> Pixels {
        let bytes = std::fs::read(file).expect("a picture");
        let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().expect("a PNG");
        let dots = reader.info().pixel_dims.expect("a size on paper");
        assert_eq!((dots.xppu, dots.yppu), (11811, 11811), "300 dots an inch");
        let mut colours = vec![0; reader.output_buffer_size().expect("it fits")];
        reader.next_frame(&mut colours).expect("pixels");
        Pixels { width: reader.info().width as usize, colours }
    }

    /// How many of a part of the picture, in points, are dark.
    fn inked(&self, (left, right): (f64, f64), (top, bottom): (f64, f64)) -> usize {
        let pixel = |points: f64| (points.max(0.0) * PIXELS_PER_POINT) as usize;
        let is_dark = |x: usize, y: usize| {
            let colour = self.colours.get(3 * (y * self.width + x)..)?.get(..3)?;
            Some(colour.iter().all(|&part| part < INK))
        };
        let rows = pixel(top)..pixel(bottom);
        let all = rows.flat_map(|y| (pixel(left)..pixel(right)).map(move |x| (x, y)));
        all.filter(|&(x, y)| is_dark(x, y) == Some(true)).count()
    }
}

/// An attribute's number.
fn number(element: &str, name: &str) -> Option<f64> {
    element.split_once(&format!(" {name}=\""))?.1.split_once('"')?.0.parse().ok()
}

#[test]
fn every_text_of_a_picture_is_in_its_png() {
    let folder = Folder::new();
    let trace = two_vms(&folder);
    for (name, arguments) in [
        ("curve", &["curve", &trace][..]),
        ("size", &["size", &trace, "--dram", "512KiB", "--ssd", "2MiB", "--no-replay"]),
        ("compare", &["compare", &trace, "--schemes", "lru,etica", "--dram", "1MiB", "--ssd", "1MiB,4MiB"]),
    ] {
        let (svg, png) = (folder.path(&format!("{name}.svg")), folder.path(&format!("{name}.png")));
        let (_, said) = both(&[arguments, &["--svg", &svg, "--png", &png]].concat());
        assert!(!said.contains("no font"), "{said}");
        let pixels = Pixels::load(&png);
        let svg = std::fs::read_to_string(&svg).expect("a picture");
        assert!(svg.contains(" width=\"504pt\""), "{svg}");
        let ends = pixels.colours.iter().take(3).chain(pixels.colours.iter().rev().take(3));
        assert!(ends.clone().all(|&part| part == 255), "{name}: {:?}", ends.collect::<Vec<_>>());
        assert_eq!(pixels.width, (504.0 * PIXELS_PER_POINT).round() as usize, "{name}");
        let texts: Vec<&str> =
            svg.split("<text").skip(1).filter_map(|rest| rest.split_once("</text>")).map(|of| of.0).collect();
        assert!(texts.len() > 8, "{svg}");
        for text in texts {
            let (x, y) = (number(text, "x").expect("a place"), number(text, "y").expect("a place"));
            let across = match text {
                text if text.contains("text-anchor=\"middle\"") => (x - 4.0, x + 4.0),
                text if text.contains("text-anchor=\"end\"") => (x - 8.0, x),
                _ => (x, x + 8.0),
            };
            let inked = pixels.inked(across, (y - 7.0, y + 1.0));
            assert!(inked > 15, "{name}: {inked} pixels of {text}");
        }
    }
}
