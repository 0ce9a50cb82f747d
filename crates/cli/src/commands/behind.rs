//! How far a disk with ordered write-back is behind its VM, as a line of the status.

use serde::Deserialize;

use crate::amounts::show_size;

/// What the daemon tells of it.
#[derive(Deserialize)]
pub struct Behind {
    behind_s: u64,
    behind_bytes: u64,
    is_of_before_start: bool,
    is_stuck: bool,
    max_lag_s: Option<u64>,
}

impl Behind {
    /// The line of this VM.
    pub fn text(&self, vm: &str) -> String {
        let Behind { behind_s, is_of_before_start, .. } = *self;
        let size = show_size(self.behind_bytes);
        let what = match (self.behind_bytes, is_of_before_start) {
            (0, _) => "the backing disk with its redo log has everything".to_owned(),
            (_, true) => format!("the backing disk lacks {size}, some of it of before this start"),
            (_, false) => format!("the backing disk is {behind_s} s and {size} behind"),
        };
        let limit = self.max_lag_s.filter(|&limit| behind_s >= limit && !self.is_stuck);
        let limit = limit.map(|limit| format!("; writes wait from {limit} s on")).unwrap_or_default();
        let stuck = match self.is_stuck {
            true => "; writes to it or its redo log fail (see the kernel's log), or a dirty block is damaged",
            false => "",
        };
        format!("{vm}: {what}{limit}{stuck}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_disk_lacks_is_said() {
        let behind = Behind {
            behind_s: 12,
            behind_bytes: 3 << 20,
            is_of_before_start: false,
            is_stuck: false,
            max_lag_s: Some(30),
        };
        assert_eq!(behind.text("vm1"), "vm1: the backing disk is 12 s and 3 MiB behind");
        let late = Behind { behind_s: 31, ..behind };
        assert_eq!(
            late.text("vm1"),
            "vm1: the backing disk is 31 s and 3 MiB behind; writes wait from 30 s on"
        );
        let before = Behind { is_of_before_start: true, ..late };
        assert!(before.text("a").contains("lacks 3 MiB, some of it of before this start"));
        let stuck = Behind { is_stuck: true, is_of_before_start: false, ..before };
        assert!(
            stuck.text("a").ends_with("or a dirty block is damaged") && !stuck.text("a").contains("wait")
        );
        let nothing = Behind { behind_bytes: 0, behind_s: 0, is_stuck: false, ..stuck };
        assert_eq!(nothing.text("a"), "a: the backing disk with its redo log has everything");
    }
}
