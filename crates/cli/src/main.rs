//! The `lode` command: arguments in, library calls, tables or JSON out. It must not know how any of it is done.
//!
//! Results go to standard output, progress and messages to standard error. Exit code 0: done; 1: failed; 2: asked
//! for something that cannot be; others: what a command says of them.

#![forbid(unsafe_code)]
// They panic where the stream takes no more; `output` does not.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod amounts;
mod arguments;
mod commands;
mod demo;
mod devices;
mod error;
mod heading;
mod interrupt;
mod level_size;
mod output;
mod pixels;
mod progress;
mod results;
mod shares;
mod spelling;
mod target;
mod watch;

use std::process::ExitCode;

use clap::Parser;

use crate::commands::Command;

/// Lodestore: a DRAM and SSD cache for the disks of virtual machines.
#[derive(Parser)]
#[command(
    name = "lode",
    version,
    after_help = "Example: lode replay web.csv.gz --scheme etica --dram 64MiB --ssd 1GiB"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    let is_file = |name: &str| std::path::Path::new(name).exists();
    if let Some(new) = spelling::out_of_use(&std::env::args_os().collect::<Vec<_>>(), is_file) {
        return error::CliError::Usage(new).report();
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return error::report_usage(&error),
    };
    match cli.command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report(),
    }
}
