//! What can serve both levels of a plan. It must not know how a plan comes about, nor which of them is best.

use lode_policy::{DEFAULT_SCHEME, Settings, UNDIVIDED};

use crate::error::PlanError;
use crate::load::SsdKeeps;
use crate::recommend::Wish;
use crate::served::settings;

/// The scheme of whoever does not choose one.
const AUTO: &str = DEFAULT_SCHEME;

/// The scheme of ETICA's two levels.
const ETICA: &str = "etica";

/// Its settings with which a plan is replayed and served: shares stay as planned, and sets do not divide them, as the
/// curves are those of undivided caches.
const PLAN_SETTINGS: [(&str, &str); 2] = [("sizing", "off"), UNDIVIDED];

/// Its modes that are worth a choice: what a full SSD does with writes to blocks that it does not hold. The first turns
/// them away, which spares the SSD; the second takes them all.
const MODES: [&str; 2] = ["full-hybrid", "npe"];

/// A scheme with which a plan is replayed and served, each VM with the share of both levels that suits the scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TwoLevels {
    /// `auto`, as it runs where nothing is set.
    Auto,
    /// `etica` in this mode.
    Etica(&'static str),
}

impl TwoLevels {
    /// Those that a plan is replayed with, the one first that is taken where they are alike. What a plan for one level is shown
    /// beside are all of them.
    pub fn wished(wish: &Wish) -> Vec<TwoLevels> {
        let auto = [TwoLevels::Auto];
        match wish {
            Wish::Auto => auto.into(),
            Wish::Etica => Self::etica().into(),
            Wish::Best | Wish::OneLevel(_) => auto.into_iter().chain(Self::etica()).collect(),
        }
    }

    /// `etica` in each of its modes, the one that spares the SSD first.
    pub fn etica() -> [TwoLevels; 2] {
        MODES.map(TwoLevels::Etica)
    }

    /// Its name.
    pub fn scheme(self) -> &'static str {
        match self {
            TwoLevels::Auto => AUTO,
            TwoLevels::Etica(_) => ETICA,
        }
    }

    /// Its setting `mode`, where it has one.
    pub fn mode(self) -> Option<&'static str> {
        match self {
            TwoLevels::Auto => None,
            TwoLevels::Etica(mode) => Some(mode),
        }
    }

    /// What its SSD keeps, which its shares are divided by.
    pub fn ssd_keeps(self) -> SsdKeeps {
        match self {
            TwoLevels::Auto => SsdKeeps::Accessed,
            TwoLevels::Etica(_) => SsdKeeps::Written,
        }
    }

    /// Its name, and its mode where it has one, for people.
    pub(crate) fn called(self) -> String {
        self.mode().map_or_else(|| self.scheme().to_owned(), |mode| format!("{} mode={mode}", self.scheme()))
    }

    /// Its settings.
    ///
    /// # Errors
    /// [`PlanError::Replay`] where there is no such scheme or setting.
    pub fn settings(self) -> Result<Settings, PlanError> {
        let of_plan = self.mode().map(|mode| PLAN_SETTINGS.into_iter().chain([("mode", mode)]));
        settings(self.scheme(), of_plan.into_iter().flatten())
    }

    /// What is planned for where this scheme is asked for; none of a scheme that does not serve two levels of a plan.
    pub(crate) fn wish_for(scheme: &str) -> Option<Wish> {
        match scheme {
            AUTO => Some(Wish::Auto),
            ETICA => Some(Wish::Etica),
            _ => None,
        }
    }

    /// The names of all of them, for people.
    pub(crate) fn names() -> String {
        format!("{AUTO} or {ETICA}")
    }
}
