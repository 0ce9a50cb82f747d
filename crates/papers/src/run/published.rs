//! What is published of the volumes of MSR Cambridge and of other recorded workloads, to recognise a copy by. It must not know files.

use serde::Serialize;

/// A volume, or another workload that was recorded.
#[derive(Clone, Copy, Debug)]
pub struct Published {
    /// Its name, which is also that of its profile where nothing else is said.
    pub volume: &'static str,
    /// The profile that stands for it, where that is called otherwise.
    pub profile: Option<&'static str>,
    /// Its requests.
    pub requests: u64,
    /// Share of them that read, where that is known.
    pub read_share: Option<f64>,
    /// Where that stands.
    pub source: &'static str,
    /// Differences of requests that still are this volume, as a share.
    pub requests_within: f64,
}

/// How far read shares may differ.
pub(super) const READ_SHARE_WITHIN: f64 = 0.01;

const TICA: &str = "TICA, table 2";
const RPAC: &str = "RPAC, table II";
const SIEVE: &str = "go-sieve benchmark report";
const SIEVE_AND_RECALLED: &str = "go-sieve benchmark report; the read share is recalled, not checked";
const RECALLED: &str = "recalled from the literature, not checked";

/// Counts that are printed.
const fn counted(volume: &'static str, reads: u64, writes: u64) -> Published {
    let requests = reads + writes;
    let read_share = Some(reads as f64 / requests as f64);
    Published { volume, profile: None, requests, read_share, source: TICA, requests_within: 0.001 }
}

/// Thousands that are printed.
const fn thousands(volume: &'static str, reads: u64, writes: u64) -> Published {
    Published { source: RPAC, ..counted(volume, 1000 * reads, 1000 * writes) }
}

/// A printed number of requests.
const fn total(volume: &'static str, requests: u64) -> Published {
    Published { volume, profile: None, requests, read_share: None, source: SIEVE, requests_within: 0.001 }
}

/// Thousands of requests, and per mille that write.
const fn recalled(volume: &'static str, thousands: u64, writes: u64) -> Published {
    let read_share = Some(1.0 - writes as f64 / 1000.0);
    let requests = 1000 * thousands;
    Published { volume, profile: None, requests, read_share, source: RECALLED, requests_within: 0.01 }
}

/// What is known.
pub static PUBLISHED: [Published; 35] = [
    counted("hm_1", 580_896, 28_415),
    counted("mds_0", 143_973, 1_067_061),
    counted("prn_0", 602_480, 4_983_406),
    counted("prxy_0", 383_524, 12_135_444),
    counted("rsrch_0", 133_625, 1_300_030),
    Published { profile: Some("src1_2-tica"), ..counted("src1_0", 21_112_615, 16_302_998) },
    counted("stg_1", 1_400_409, 796_452),
    counted("ts_0", 316_692, 1_485_042),
    counted("usr_0", 904_483, 1_333_406),
    counted("wdev_0", 229_529, 913_732),
    total("hm_0", 3_993_316),
    total("prn_1", 11_233_411),
    Published { read_share: Some(0.125), source: SIEVE_AND_RECALLED, ..total("proj_0", 4_224_524) },
    total("proj_1", 23_639_742),
    total("proj_2", 29_266_482),
    total("proj_4", 6_465_639),
    total("src1_1", 45_746_222),
    total("usr_1", 45_283_980),
    total("usr_2", 10_570_046),
    total("web_2", 5_175_368),
    recalled("mds_1", 1_638, 71),
    recalled("src1_2", 1_908, 746),
    recalled("src2_0", 1_558, 887),
    recalled("stg_0", 2_031, 848),
    recalled("web_0", 2_030, 701),
    recalled("web_3", 31, 686),
    counted("tpcc", 1_352_983, 581_112),
    counted("webserver", 418_951, 270_569),
    counted("devtoolrel", 108_507, 52_032),
    counted("livemapsbe", 294_493, 115_862),
    counted("msnfs", 644_573, 349_485),
    counted("exchange", 158_011, 502_716),
    counted("postmark", 1_272_148, 3_172_014),
    thousands("fiu-mail", 2_130, 21_492),
    thousands("fiu-webvm", 3_117, 11_177),
];

impl Published {
    /// The profile that stands for the volume where there is no trace of it.
    pub fn profile(&self) -> &'static str {
        self.profile.unwrap_or(self.volume)
    }

    /// Whether a trace with so many requests has as many as the volume.
    pub fn has_requests(&self, requests: u64) -> bool {
        (requests as f64 / self.requests as f64 - 1.0).abs() <= self.requests_within
    }

    /// Whether a trace with so many requests, of which so many read, can be this volume.
    pub fn fits(&self, requests: u64, reads: u64) -> bool {
        let share = reads as f64 / requests.max(1) as f64;
        self.has_requests(requests)
            && self.read_share.is_none_or(|published| (share - published).abs() <= READ_SHARE_WITHIN)
    }
}

/// What is known of the volume of this name.
pub fn published(volume: &str) -> Option<&'static Published> {
    PUBLISHED.iter().find(|one| one.volume.eq_ignore_ascii_case(volume))
}

/// What is known of the volume that this profile stands for.
pub fn published_of_profile(profile: &str) -> Option<&'static Published> {
    PUBLISHED.iter().find(|one| one.profile() == profile)
}

/// What a trace that is named after `volume` is, by its counts and by the name it bears inside, if that is a volume's.
pub(super) fn judge(volume: &Published, inside: Option<&str>, requests: u64, reads: u64) -> Verdict {
    let inside = inside.and_then(published);
    if let Some(other) = inside.filter(|other| other.volume != volume.volume) {
        return Verdict::WrongVolume { is: other.volume };
    }
    if volume.fits(requests, reads) {
        return Verdict::Used { source: volume.source };
    }
    match with_figures(requests, reads) {
        Some(other) if inside.is_none() => Verdict::WrongVolume { is: other.volume },
        _ => Verdict::OtherFigures {
            requests: volume.requests,
            read_share: volume.read_share,
            source: volume.source,
        },
    }
}

/// The volume with these figures: where several may have them, one of which the share of reads is known as well.
fn with_figures(requests: u64, reads: u64) -> Option<&'static Published> {
    let fitting = PUBLISHED.iter().filter(|one| one.fits(requests, reads));
    fitting.min_by_key(|one| one.read_share.is_none())
}

/// What a trace was taken for.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Verdict {
    /// It has the published figures of the volume that it is named after.
    Used {
        /// Where the figures stand.
        source: &'static str,
    },
    /// It is named after one volume and is another.
    WrongVolume {
        /// The volume whose figures it has.
        is: &'static str,
    },
    /// It does not have the figures of the volume that it is named after, nor those of another one.
    OtherFigures {
        /// Requests that were published.
        requests: u64,
        /// Share of reads that was published.
        read_share: Option<f64>,
        /// Where.
        source: &'static str,
    },
    /// It cannot be used for another reason.
    Unusable {
        /// Why, and what to do.
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_are_told_apart() {
        for (at, one) in PUBLISHED.iter().enumerate() {
            let reads = (one.requests as f64 * one.read_share.unwrap_or(0.5)) as u64;
            assert_eq!(with_figures(one.requests, reads).map(|found| found.volume), Some(one.volume), "{at}");
        }
    }

    #[test]
    fn a_trace_of_another_volume_is_named() {
        let hm_1 = published("HM_1").expect("a volume");
        let used = Verdict::Used { source: TICA };
        assert_eq!(judge(hm_1, Some("hm_1"), 609_311, 580_896), used);
        assert_eq!(judge(hm_1, None, 609_311, 580_896), used);
        assert_eq!(judge(hm_1, Some("prn_0"), 609_311, 580_896), Verdict::WrongVolume { is: "prn_0" });
        assert_eq!(judge(hm_1, None, 5_585_886, 602_480), Verdict::WrongVolume { is: "prn_0" });
        // A part of the volume is not the volume.
        assert!(matches!(
            judge(hm_1, Some("hm_1"), 1000, 953),
            Verdict::OtherFigures { requests: 609_311, .. }
        ));
        assert!(matches!(judge(hm_1, Some("hm_1"), 609_311, 300_000), Verdict::OtherFigures { .. }));
        assert_eq!(published_of_profile("src1_2-tica").map(|one| one.volume), Some("src1_0"));
    }
}
