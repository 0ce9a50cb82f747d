//! A VM gets another name: in the state file, which says so until all is done, in the configuration file, in the directory of the
//! SSD, and where it is served. A start that finds it half way goes by the configuration file. It must not know who asks.

use std::sync::atomic::AtomicBool;
use std::sync::mpsc::sync_channel;

use lode_format::VolumeTag;
use lode_nbd::ExportInfo;
use lode_store::MembershipChange;

use super::Done;
use super::parts::{DirectoryEnd, Parts};
use crate::config::Config;
use crate::error::ServerError;
use crate::fence_file::FenceFile;
use crate::identity::StateFile;
use crate::messages::ToShard;

/// See the module's documentation.
pub(crate) struct RenameVm {
    pub from: String,
    pub to: String,
    pub number: usize,
    pub tag: Option<VolumeTag>,
    pub export: ExportInfo,
    /// As it is served.
    pub config: Config,
}

impl RenameVm {
    pub(super) fn run(self, parts: &Parts, give_up: &AtomicBool) -> Result<Done, String> {
        let RenameVm { from, to, number, tag, export, config } = self;
        let words = |error: ServerError| error.to_string();
        parts.check_ssd()?;
        let state = StateFile::of(&config);
        state.begin_renaming(&from, &to).map_err(words)?;
        if let Err(error) = rename_in_file(&config, &from, &to) {
            state.end_renaming(&from, &to).map_err(words)?;
            return Err(error.to_string());
        }
        match tag.map(|tag| parts.change_directory(MembershipChange::Rename(tag, to.clone()), give_up)) {
            None | Some(DirectoryEnd::Done(_)) => {}
            Some(DirectoryEnd::Refused(why)) => {
                rename_in_file(&config, &to, &from).map_err(words)?;
                state.end_renaming(&from, &to).map_err(words)?;
                return Err(why);
            }
            Some(DirectoryEnd::Unknown) => {
                return Err(format!("The SSD failed on the way; the next start serves the VM as {to}"));
            }
        }
        let fences = [&from, &to].map(|name| FenceFile::of(&config, name));
        let is_renamed = parts.wait_until(give_up, || {
            let (answer, answered) = sync_channel(1);
            let (export, fence) = (export.clone(), fences[1].clone());
            parts.host.tell(number, |volume| ToShard::Rename { volume, export, fence, answer });
            answered.recv() == Ok(true)
        });
        if !is_renamed {
            return Err(format!(
                "Its shard cannot take the name over now; the next start serves the VM as {to}"
            ));
        }
        let [before, after] = &fences;
        after.take_over(before).and_then(|()| state.end_renaming(&to, &from)).map_err(words)?;
        if let Err(error) = parts.claims.rename(number, &to) {
            // Other hosts are told the name that it had.
            tracing::warn!("VM {to}: {error}");
        }
        Ok(Done::Renamed { from, to })
    }
}

fn rename_in_file(config: &Config, from: &str, to: &str) -> Result<(), ServerError> {
    Config::load(&config.path)?.renamed(from, to)?.write()
}
