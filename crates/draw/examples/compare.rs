//! Writes a page that compares schemes, and pictures for a paper, out of synthetic data:
//! `cargo run -p lode-draw --example compare -- FOLDER`.

#[path = "../tests/sample/compare.rs"]
mod compare;

use std::error::Error;
use std::path::PathBuf;

use lode_draw::Style;

fn main() -> Result<(), Box<dyn Error>> {
    let folder =
        PathBuf::from(std::env::args().nth(1).ok_or("Name the folder to write into: compare FOLDER")?);
    std::fs::write(folder.join("compare.html"), compare::comparison_page().html()?)?;
    std::fs::write(folder.join("front.svg"), compare::scatter().svg(&Style::one_column())?)?;
    std::fs::write(folder.join("hit-ratio.svg"), compare::hit_ratios().svg(&Style::one_column())?)?;
    std::fs::write(folder.join("requests.svg"), compare::stacked().svg(&Style::full_width())?)?;
    Ok(())
}
