//! Removes a VM: its shard gives it up when its backing disk has everything, then its space on the SSD is free. It must not know who
//! asks.

use std::sync::atomic::AtomicBool;
use std::sync::mpsc::sync_channel;

use lode_format::VolumeTag;
use lode_store::MembershipChange;

use super::parts::{DirectoryEnd, Parts};
use super::{Done, Failure};
use crate::config::VmConfig;
use crate::identity::StateFile;
use crate::messages::ToShard;
use crate::redo;

/// See the module's documentation.
pub(crate) struct RemoveVm {
    pub vm: String,
    pub config: VmConfig,
    pub number: usize,
    pub tag: Option<VolumeTag>,
    pub disconnect: bool,
    pub state: StateFile,
}

impl RemoveVm {
    /// Once the shard has let the VM out it is gone, whatever comes of its space.
    pub(super) fn run(self, parts: &Parts, give_up: &AtomicBool) -> Result<Done, Failure> {
        let RemoveVm { vm, config, number, tag, disconnect, state } = self;
        parts.check_ssd()?;
        let (answer, answered) = sync_channel(1);
        parts.host.tell(number, |volume| ToShard::Remove { volume, disconnect, answer });
        answered.recv().map_err(|_| "The service stops".to_owned())??;
        // The shard has flushed the disk, and nobody writes to it any more.
        parts.read_ssd.iter().for_each(|read_ssd| read_ssd.give_back(number));
        // What was given back is left to whoever serves the disk now.
        parts.claims.close_redo(number);
        let log_of = parts.volume(tag).filter(|_| !parts.claims.is_released(number));
        let left = log_of.map_or(Ok(()), |volume| redo::leave(&config, volume));
        let left = left.and(parts.claims.forget(number));
        let given_back = left.err().map(|error| error.to_string());
        let has_left = parts.wait_until(give_up, || {
            parts.space.with_broker(|broker| {
                let may_leave = !broker.is_changing(number);
                if may_leave {
                    broker.leave(number);
                }
                may_leave
            })
        });
        let kept = |why: String| {
            Some(format!("its space on the SSD stays taken until `lode volume remove` gives it back: {why}"))
        };
        let warning = match tag {
            _ if !has_left => kept("its extents change without an end".to_owned()),
            None => None,
            Some(tag) => match parts.change_directory(MembershipChange::Remove(tag), give_up) {
                DirectoryEnd::Done(_) => {
                    parts.records.iter().for_each(|records| records.remove(&[], &[tag]));
                    let epoch = parts.space.with_broker(|broker| {
                        broker.directory().map_or(0, |directory| directory.superblock().epoch)
                    });
                    state.note_removed(&vm, epoch).err().map(|error| error.to_string())
                }
                DirectoryEnd::Refused(why) => kept(why),
                DirectoryEnd::Unknown => {
                    kept("the SSD failed on the way, and the next start knows whether it is free".to_owned())
                }
            },
        };
        Ok(Done::Removed { vm, has_left, warning: warning.or(given_back) })
    }
}
