//! `lode demo`: the main job on made-up guests, beside the same job without a cache.

use std::time::Duration;

use clap::Args;

use crate::demo::{Comparison, Plan};
use crate::error::CliError;

/// Serve three made-up VMs through a cache and without one, and show the difference; then let memory move between them.
///
/// Everything is in a temporary folder: a file stands for the SSD, files that answer as slowly as a 7200 rpm
/// disk stand for the backing disks, and fio drives the VMs' disks over their NBD sockets.
#[derive(Args)]
#[command(after_help = "Example: lode demo --seconds 20")]
pub struct DemoCommand {
    /// How long the runs with a cache and without may take together; the second act takes 20 s more.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(6..=3600))]
    seconds: u64,
}

impl DemoCommand {
    pub fn run(&self) -> Result<(), CliError> {
        let plan = Plan::new(Duration::from_secs(self.seconds))?;
        let cached = plan.run(true)?;
        let plain = plan.run(false)?;
        crate::output::write(&format!("{}\n", Comparison { cached: &cached, plain: &plain }))?;
        crate::output::write(&plan.share()?.to_string())
    }
}
