//! `lode divide`: have a running daemon divide its levels between VMs now.

use std::time::Duration;

use clap::Args;
use serde::Deserialize;
use serde_json::json;

use crate::arguments::Daemon;
use crate::error::CliError;
use crate::results::JsonArgs;

/// From one look at shares on their way to the next.
const PAUSE: Duration = Duration::from_millis(100);

/// Have a running daemon divide its levels between VMs now, and not at the end of the interval.
///
/// What VMs could have used since the last division decides. Shares move on at the rate of the configuration; `lode events` says
/// which of them change, and why.
#[derive(Args)]
#[command(after_help = "Example: lode divide /etc/lodestore/host1.toml --wait")]
pub struct DivideCommand {
    #[command(flatten)]
    daemon: Daemon,

    /// Return when every VM has its new share.
    #[arg(long)]
    wait: bool,

    #[command(flatten)]
    json: JsonArgs,
}

/// What is needed of a daemon's status.
#[derive(Deserialize)]
struct Status {
    host: Host,
}

#[derive(Deserialize)]
struct Host {
    moving: bool,
    stopped: bool,
}

impl DivideCommand {
    pub fn run(&self) -> Result<(), CliError> {
        let control = self.daemon.control()?;
        let mut moving = lode_server::divide(&control)?.moving;
        while moving && self.wait {
            std::thread::sleep(PAUSE);
            let status = lode_server::status(&control)?;
            let Status { host } = serde_json::from_str(&status).map_err(|error| {
                let text =
                    format!("The daemon's answer is not understood: {error}; is it of another version?");
                CliError::Failure(text)
            })?;
            if host.stopped {
                let text = "A defect of the program ended the division, and shares stay as they are; see `lode events`";
                return Err(CliError::Failure(text.to_owned()));
            }
            moving = host.moving;
        }
        self.json.write(&json!({ "moving": moving }), || match moving {
            true => "Divided; shares are on their way, see `lode vm list`\n".to_owned(),
            false => "Divided; every VM has its share\n".to_owned(),
        })
    }
}
