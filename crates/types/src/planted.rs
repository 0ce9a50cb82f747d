//! Deliberate bugs, one of which a build for the mutation check (`./dev mutants`, feature `mutants`) switches on for a run. Their
//! names, what each breaks and who has to notice are in `ci/planted`.
//!
//! The feature's build reads the environment, which nothing else in the pure crates does: a bug is chosen for a whole run, before any
//! test of any crate begins. No other build has that code. It must not know what the bugs break.

/// Whether the deliberate bug of this name is switched on. In every build but those for the mutation check it is not, and
/// nothing is left of it.
#[cfg(not(feature = "mutants"))]
#[inline(always)]
pub const fn planted(_bug: &str) -> bool {
    false
}

/// Whether the deliberate bug of this name is switched on: the environment names it (`LODE_PLANTED`).
#[cfg(feature = "mutants")]
pub fn planted(bug: &str) -> bool {
    static ON: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    ON.get_or_init(|| std::env::var("LODE_PLANTED").ok()).as_deref() == Some(bug)
}
