//! Writes a page as the planner makes it, out of synthetic data:
//! `cargo run -p lode-draw --example planner -- FILE [VMS [POINTS]]`.

#[path = "../tests/sample/planner.rs"]
mod planner;

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("Name the file to write: planner FILE [VMS [POINTS]]")?;
    let count = arguments.next().map_or(Ok(12), |text| text.parse())?;
    let points = arguments.next().map_or(Ok(200), |text| text.parse())?;
    std::fs::write(file, planner::planner_page(count, points).html()?)?;
    Ok(())
}
