//! A VM gets another name: in the state file, which says so until all is done, in the configuration file unless the VM was added
//! until a restart only, in the directory of the SSD, and where it is served. A start that finds it half way goes by the
//! configuration file, and so does what follows here once that has the name. It must not know who asks.

use std::sync::atomic::AtomicBool;
use std::sync::mpsc::sync_channel;

use lode_format::VolumeTag;
use lode_nbd::ExportInfo;
use lode_store::MembershipChange;

use super::parts::{DirectoryEnd, Parts};
use super::{Done, Failure};
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
    /// The configuration file has it.
    pub is_in_file: bool,
    /// As it is served.
    pub config: Config,
}

impl RenameVm {
    pub(super) fn run(self, parts: &Parts, give_up: &AtomicBool) -> Result<Done, Failure> {
        let state = StateFile::of(&self.config);
        let warning = match self.rename_durably(parts, &state, give_up)? {
            Some(warning) => {
                // The next start does the rest, and needs to know that there is one.
                let told = self.tell_shard(parts, give_up);
                let also = if told { "" } else { "; until then the log has the old name" };
                let file = if self.is_in_file { "the configuration file has the new name, but " } else { "" };
                Some(format!("{file}{warning}{also}"))
            }
            None if !self.tell_shard(parts, give_up) => Some(
                "its shard cannot take the name over now; until a restart the log has the old name"
                    .to_owned(),
            ),
            None => self
                .end(parts, &state)
                .err()
                .map(|error| format!("the next start has the rest to do: {error}")),
        };
        let RenameVm { from, to, .. } = self;
        Ok(Done::Renamed { from, to, warning })
    }

    /// In the files and on the SSD. What did not go as it should once the configuration file has the name.
    fn rename_durably(
        &self,
        parts: &Parts,
        state: &StateFile,
        give_up: &AtomicBool,
    ) -> Result<Option<String>, Failure> {
        let RenameVm { from, to, tag, .. } = self;
        let words = |error: ServerError| error.to_string();
        parts.check_ssd()?;
        FenceFile::of(&self.config, to).make_way().map_err(words)?;
        state.begin_renaming(from, to).map_err(words)?;
        if let Err(error) = self.rename_in_file(from, to) {
            return Err(self.undone(state, &error.to_string()));
        }
        let change = |tag| parts.change_directory(MembershipChange::Rename(tag, to.clone()), give_up);
        Ok(match tag.map(change) {
            None | Some(DirectoryEnd::Done(_)) => None,
            Some(DirectoryEnd::Refused(why)) => match self.rename_in_file(to, from) {
                Ok(()) => return Err(self.undone(state, &why)),
                Err(error) => Some(format!("the SSD does not ({why}): {error}")),
            },
            Some(DirectoryEnd::Unknown) => Some(
                "the SSD failed on the way, and the next start knows whether it has it as well".to_owned(),
            ),
        })
    }

    /// The VM keeps its name.
    fn undone(&self, state: &StateFile, why: &str) -> Failure {
        match state.end_renaming(&self.from, &self.to) {
            Ok(()) => Failure::Unchanged(why.to_owned()),
            Err(error) => Failure::Partly(format!(
                "VM {} keeps its name: {why}. The state file still says that it gets another one, which the next start clears \
                 up: {error}",
                self.from
            )),
        }
    }

    fn tell_shard(&self, parts: &Parts, give_up: &AtomicBool) -> bool {
        let fence = FenceFile::of(&self.config, &self.to);
        parts.wait_until(give_up, || {
            let (answer, answered) = sync_channel(1);
            let (export, fence) = (self.export.clone(), fence.clone());
            parts.host.tell(self.number, |volume| ToShard::Rename { volume, export, fence, answer });
            answered.recv() == Ok(true)
        })
    }

    fn rename_in_file(&self, from: &str, to: &str) -> Result<(), ServerError> {
        if self.is_in_file { self.config.in_file(from)?.renamed(from, to)?.write() } else { Ok(()) }
    }

    /// What is noted under the old name is noted under the new one, which it has for good.
    fn end(&self, parts: &Parts, state: &StateFile) -> Result<(), ServerError> {
        let [before, after] = [&self.from, &self.to].map(|name| FenceFile::of(&self.config, name));
        after.take_over(&before)?;
        state.end_renaming(&self.to, &self.from)?;
        // Other hosts are told the name that it had, should it not get the new one.
        parts.claims.rename(self.number, &self.to)
    }
}
