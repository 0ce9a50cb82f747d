//! What redundancy over several disks makes of a write. It must not know what the disks are.

use serde::{Deserialize, Serialize};

/// How disks are put together.
///
/// A small write to RAID-5 reads the old data and the old parity, then writes both; RAID-6 has two parities. That is
/// two accesses one after the other, and four or six of all disks together. A write of whole stripes reads nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Raid {
    /// One disk.
    #[default]
    None,
    /// One parity.
    Raid5,
    /// Two parities.
    Raid6,
    /// Stripes over pairs of mirrors.
    Raid10,
}

/// Most disks of an array.
pub(crate) const MAX_DISKS: u32 = 1000;

impl Raid {
    /// Disks' worth of data in an array of so many disks; none if there can be no such array, and what there can be.
    ///
    /// # Errors
    /// What the number of disks should be.
    pub fn data_disks(self, disks: u32) -> Result<u32, &'static str> {
        if disks > MAX_DISKS {
            return Err("an array has at most 1000 disks");
        }
        match self {
            Raid::None if disks == 1 => Ok(1),
            Raid::None => Err("raid = \"none\" is one disk; write disks = 1, or name a RAID level"),
            Raid::Raid5 if disks >= 3 => Ok(disks - 1),
            Raid::Raid5 => Err("RAID-5 has at least 3 disks"),
            Raid::Raid6 if disks >= 4 => Ok(disks - 2),
            Raid::Raid6 => Err("RAID-6 has at least 4 disks"),
            Raid::Raid10 if disks >= 4 && disks.is_multiple_of(2) => Ok(disks / 2),
            Raid::Raid10 => Err("RAID-10 has an even number of disks, at least 4"),
        }
    }

    /// Accesses, one after the other, of which a small write consists.
    pub fn write_passes(self) -> u32 {
        match self {
            Raid::None | Raid::Raid10 => 1,
            Raid::Raid5 | Raid::Raid6 => 2,
        }
    }

    /// Accesses of all disks together that a small write costs: the write penalty.
    pub fn small_write_accesses(self) -> u32 {
        match self {
            Raid::None => 1,
            Raid::Raid10 => 2,
            Raid::Raid5 => 4,
            Raid::Raid6 => 6,
        }
    }

    /// Disks that work during each access of a small write.
    pub fn write_disks(self) -> u32 {
        self.small_write_accesses() / self.write_passes()
    }
}
