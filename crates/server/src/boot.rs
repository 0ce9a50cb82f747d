//! Which boot of the host this is. It must not know what for.

/// Where the system says it.
pub(crate) const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// As the system writes it; none where it does not say.
pub(crate) fn boot_text() -> Option<String> {
    std::fs::read_to_string(BOOT_ID).ok().map(|text| text.trim_end().to_owned())
}
