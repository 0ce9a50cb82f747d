//! `lode top`: what the VMs of a running daemon do, on the whole terminal.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use clap::Args;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};

use crate::arguments::Daemon;
use crate::error::CliError;
use crate::watch::Watch;
use crate::watch::view::{SHOWN_EVENTS, Top};

/// Show what the VMs of a running daemon do, second by second.
///
/// Below the list: the latencies, shares and dirty blocks of the VM that is selected, and the latest events.
///
/// Keys: q quits; < and > choose the column to sort by, r reverses; / filters by name, Esc shows all; arrows, PgUp, PgDn, Home and
/// End choose the VM whose latencies are shown below.
#[derive(Args)]
#[command(after_help = "Example: lode top /etc/lodestore/host1.toml")]
pub struct TopCommand {
    #[command(flatten)]
    daemon: Daemon,

    /// Seconds from one look to the next.
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=3600))]
    interval: u32,
}

impl TopCommand {
    pub fn run(&self) -> Result<(), CliError> {
        let mut watch = Watch::new(self.daemon.control()?);
        // Before the terminal is taken: a daemon that is not there is an error like any other.
        let look = watch.next()?;
        let mut top = Top::default();
        top.update(look, watch.events(SHOWN_EVENTS)?);
        if !std::io::stdout().is_terminal() {
            return Err(no_terminal(&std::io::Error::other("standard output is none")));
        }
        let mut terminal = ratatui::try_init().map_err(|error| no_terminal(&error))?;
        let ended = show(&mut terminal, &mut top, &mut watch, Duration::from_secs(self.interval.into()));
        ratatui::restore();
        ended.map_err(|error| no_terminal(&error))
    }
}

fn no_terminal(error: &std::io::Error) -> CliError {
    CliError::Failure(format!("Cannot use the terminal: {error}; `lode status --watch` needs none"))
}

fn show(
    terminal: &mut ratatui::DefaultTerminal,
    top: &mut Top,
    watch: &mut Watch,
    interval: Duration,
) -> std::io::Result<()> {
    let mut next = Instant::now() + interval;
    loop {
        terminal.draw(|frame| top.draw(frame))?;
        if event::poll(next.saturating_duration_since(Instant::now()))? {
            // Others, such as another size, are drawn and no more.
            if let Event::Key(key) = event::read()?
                && key.kind == KeyEventKind::Press
            {
                let interrupted =
                    key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
                if interrupted || !top.press(key.code) {
                    return Ok(());
                }
            }
        }
        if Instant::now() >= next {
            next = Instant::now() + interval;
            let next = watch.next().and_then(|look| Ok((look, watch.events(SHOWN_EVENTS)?)));
            match next {
                Ok((look, events)) => top.update(look, events),
                Err(error) => top.fail(&error.to_string()),
            }
        }
    }
}
