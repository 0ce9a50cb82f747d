//! What the volumes of a host have followed of the changes of their pair, and what may be done when all have. It must not know
//! volumes, devices or threads.
//!
//! Each change of the pair's health has a version, one more than the one before. A volume *adopts* a version when its commands go by
//! it, and has *drained* it when no write or flush is under way either that was begun before anybody noted writes for a resilver.

use std::collections::BTreeMap;

use lode_types::planted;

/// How far a volume has followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Followed {
    /// Its commands go by this version.
    pub adopted: u64,
    /// Nothing is under way that the resilver of this version has to wait for.
    pub drained: u64,
}

impl Followed {
    /// Of a volume that has nothing to do with its pair any more.
    pub const RETIRED: Followed = Followed { adopted: u64::MAX, drained: u64::MAX };
}

/// How far each volume has followed. See the module's documentation.
#[derive(Debug, Default)]
pub struct Followers {
    followed: BTreeMap<u64, Followed>,
    next: u64,
}

impl Followers {
    /// A volume is served from the pair. Gives the number by which it is known here.
    pub fn join(&mut self, followed: Followed) -> u64 {
        let number = self.next;
        self.next += 1;
        self.followed.insert(number, followed);
        number
    }

    /// A volume has followed so far.
    pub fn note(&mut self, number: u64, followed: Followed) {
        self.followed.entry(number).and_modify(|known| *known = followed);
    }

    /// A volume is served no more.
    pub fn leave(&mut self, number: u64) {
        self.followed.remove(&number);
    }

    /// Whether another device may be resilvered in the place of a member that this version or one before it dropped: no volume sends
    /// anything to the device that was there. One that did would take it for the new one, which would lack what is written to the other.
    pub fn may_replace(&self, version: u64) -> bool {
        self.have_adopted(version) || planted("resilver-before-all-followed")
    }

    /// Whether the resilver that began with this version may copy: everything that is under way goes to the new member as well.
    pub fn may_copy(&self, version: u64) -> bool {
        self.all(|one| one.drained >= version) || planted("resilver-before-all-drained")
    }

    /// Whether labels may say what this version did: nobody goes by what was before.
    pub fn have_adopted(&self, version: u64) -> bool {
        self.all(|one| one.adopted >= version)
    }

    fn all(&self, is_so: impl Fn(&Followed) -> bool) -> bool {
        let looked_at = if planted("resilver-waits-for-the-first-volume") { 1 } else { usize::MAX };
        self.followed.values().take(looked_at).all(is_so)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_volume_is_waited_for_unless_it_is_gone() {
        let mut followers = Followers::default();
        assert!(followers.may_replace(9) && followers.may_copy(9), "there are none");
        let [one, other] = [(), ()].map(|()| followers.join(Followed { adopted: 1, drained: 1 }));
        followers.note(one, Followed { adopted: 2, drained: 1 });
        assert!(!followers.may_replace(2) && !followers.may_copy(2));
        followers.note(other, Followed { adopted: 2, drained: 2 });
        assert!(followers.may_replace(2) && !followers.may_copy(2));
        followers.note(one, Followed::RETIRED);
        assert!(followers.may_copy(2) && !followers.may_replace(3));
        followers.leave(other);
        followers.note(other, Followed { adopted: 0, drained: 0 });
        assert!(followers.may_replace(3), "one that left does not come back");
    }
}
