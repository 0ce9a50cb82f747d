//! How likely devices fail, by TICA's Eq. 3 to 5. It must not know what is lost then.

/// Chance that a device fails within a mission (TICA, Eq. 3): `1 - exp(-mission/MTTF)`.
///
/// As printed, Eq. 3 has the hours of the year in the denominator, which gives chances of 10^-10 and none of the
/// paper's results; the mission belongs in the numerator.
pub fn unreliability(mttf_h: f64, mission_h: f64) -> f64 {
    // Not 1 - exp(..), which loses most digits of a small chance.
    -(-mission_h / mttf_h).exp_m1()
}

/// Chance of losing dirty data that are on the write-optimised SSD, and besides for a share `alpha` of the time in
/// DRAM, else on the read-optimised SSD (TICA, Eq. 4). Arguments are the devices' chances of failure.
pub fn unreliability_hybrid(alpha: f64, write_ssd: f64, read_ssd: f64, dram: f64) -> f64 {
    alpha * write_ssd * dram + (1.0 - alpha) * write_ssd * read_ssd
}

/// Chance of losing dirty data that are on two SSDs of one kind (TICA, Eq. 5, for uCache; the paper's number for it follows
/// from Eq. 4, see `docs/hardware.md`).
pub fn unreliability_pair(ssd: f64) -> f64 {
    ssd * ssd
}
