//! Who issued a request, and how, as far as a trace or a guest tells. It must not know where that is told.

/// What is known of a request's issuer. Every part may be unknown, and in most traces all are.
///
/// Packed, so that requests and accesses do not grow by it: two bits whether the issuer waits, two whether it is
/// critical, and above them the process plus one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Origin(u32);

/// Codes of two bits: zero is unknown.
const NO: u32 = 1;
const YES: u32 = 2;
const FLAG_MASK: u32 = 3;
const SYNC_SHIFT: u32 = 0;
const CRITICAL_SHIFT: u32 = 2;
const PROCESS_SHIFT: u32 = 4;

impl Origin {
    /// Nothing is known.
    pub const UNKNOWN: Origin = Origin(0);

    /// The largest number of a process.
    pub const MAX_PROCESS: u32 = (u32::MAX >> PROCESS_SHIFT) - 1;

    /// The same issued by this process; `None` for one above [`Origin::MAX_PROCESS`].
    pub const fn with_process(self, process: u32) -> Option<Origin> {
        let flags = self.0 & ((1 << PROCESS_SHIFT) - 1);
        if process > Origin::MAX_PROCESS {
            return None;
        }
        Some(Origin(flags | (process + 1) << PROCESS_SHIFT))
    }

    /// The same by an issuer who waits for its completion, or does not.
    #[must_use]
    pub const fn with_sync(self, sync: bool) -> Origin {
        self.with_flag(SYNC_SHIFT, sync)
    }

    /// The same by an issuer who serves requests that somebody waits for, or does not.
    #[must_use]
    pub const fn with_critical(self, critical: bool) -> Origin {
        self.with_flag(CRITICAL_SHIFT, critical)
    }

    const fn with_flag(self, shift: u32, value: bool) -> Origin {
        Origin(self.0 & !(FLAG_MASK << shift) | (if value { YES } else { NO }) << shift)
    }

    /// The process that issued it.
    pub fn process(self) -> Option<u32> {
        (self.0 >> PROCESS_SHIFT).checked_sub(1)
    }

    /// Whether the issuer waits for the completion.
    #[inline]
    pub fn sync(self) -> Option<bool> {
        self.flag(SYNC_SHIFT)
    }

    /// Whether the issuer is critical.
    #[inline]
    pub fn critical(self) -> Option<bool> {
        self.flag(CRITICAL_SHIFT)
    }

    #[inline]
    fn flag(self, shift: u32) -> Option<bool> {
        match self.0 >> shift & FLAG_MASK {
            NO => Some(false),
            YES => Some(true),
            _ => None,
        }
    }

    /// The number that stands for it in files; zero when nothing is known. Flags take its lowest half byte.
    #[inline]
    pub fn code(self) -> u32 {
        self.0
    }

    /// What a number stands for, if it stands for anything.
    #[inline]
    pub fn from_code(code: u32) -> Option<Origin> {
        let both = code & (code >> 1);
        (both & (NO << SYNC_SHIFT | NO << CRITICAL_SHIFT) == 0).then_some(Origin(code))
    }
}

/// What of its requests' origins a trace or a guest tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct OriginFields {
    /// The process.
    pub process: bool,
    /// Whether the issuer waits.
    pub sync: bool,
    /// Whether the issuer is critical.
    pub critical: bool,
}

impl OriginFields {
    /// Nothing.
    pub const NONE: OriginFields = OriginFields { process: false, sync: false, critical: false };

    /// All there is.
    pub const ALL: OriginFields = OriginFields { process: true, sync: true, critical: true };

    /// What both tell.
    #[must_use]
    pub fn and(self, other: OriginFields) -> OriginFields {
        OriginFields {
            process: self.process && other.process,
            sync: self.sync && other.sync,
            critical: self.critical && other.critical,
        }
    }

    /// The names of what is told.
    pub fn names(self) -> Vec<&'static str> {
        let told = [(self.process, "process"), (self.sync, "sync"), (self.critical, "critical")];
        told.into_iter().filter(|(is_told, _)| *is_told).map(|(_, name)| name).collect()
    }

    /// A bit for each that is told, the process the lowest.
    pub fn code(self) -> u8 {
        u8::from(self.process) | u8::from(self.sync) << 1 | u8::from(self.critical) << 2
    }

    /// What such bits stand for; `None` when there are others among them.
    pub fn from_code(code: u8) -> Option<OriginFields> {
        let bit = |at: u8| code >> at & 1 == 1;
        (code < 8).then(|| OriginFields { process: bit(0), sync: bit(1), critical: bit(2) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_was_put_in_and_survives_its_code() {
        let flags = [None, Some(false), Some(true)];
        for process in [None, Some(0), Some(1), Some(4_194_304), Some(Origin::MAX_PROCESS)] {
            for (sync, critical) in flags.iter().flat_map(|a| flags.iter().map(move |b| (*a, *b))) {
                let mut origin = Origin::UNKNOWN;
                origin = process.map_or(origin, |process| origin.with_process(process).expect("it is small"));
                origin = sync.map_or(origin, |sync| origin.with_sync(!sync).with_sync(sync));
                origin = critical.map_or(origin, |critical| origin.with_critical(critical));
                assert_eq!((origin.process(), origin.sync(), origin.critical()), (process, sync, critical));
                assert_eq!(Origin::from_code(origin.code()), Some(origin));
                let told = process.is_some() || sync.is_some() || critical.is_some();
                assert_eq!(origin.code() != 0, told);
            }
        }
        assert_eq!(Origin::UNKNOWN.with_process(Origin::MAX_PROCESS + 1), None);
        assert_eq!(Origin::UNKNOWN.with_process(u32::MAX), None);
    }

    #[test]
    fn a_flag_has_three_values() {
        for code in 0..64 {
            let is_bad = code & 3 == 3 || code >> 2 & 3 == 3;
            assert_eq!(Origin::from_code(code).is_none(), is_bad, "{code}");
        }
        assert_eq!(Origin::from_code(u32::MAX), None);
    }

    #[test]
    fn fields_and_their_codes() {
        for code in 0..=u8::MAX {
            assert_eq!(OriginFields::from_code(code).map(OriginFields::code), (code < 8).then_some(code));
        }
        assert_eq!(OriginFields::from_code(6).expect("two bits").names(), ["sync", "critical"]);
        assert_eq!(OriginFields::ALL.and(OriginFields::NONE), OriginFields::NONE);
    }
}
