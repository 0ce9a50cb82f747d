//! Which papers there are. It must not know what is in them.

use serde::Serialize;

/// A paper whose experiments are repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Paper {
    /// ETICA.
    Etica,
    /// ECI-Cache, of which the abstract is known.
    EciCache,
    /// TICA.
    Tica,
    /// RPAC.
    Rpac,
    /// Request-oriented durable write caching.
    RequestOriented,
}

impl Paper {
    /// Every paper, in the order of reports.
    pub const ALL: [Paper; 5] =
        [Paper::Etica, Paper::EciCache, Paper::Tica, Paper::Rpac, Paper::RequestOriented];

    /// The word users write.
    pub fn name(self) -> &'static str {
        match self {
            Paper::Etica => "etica",
            Paper::EciCache => "eci-cache",
            Paper::Tica => "tica",
            Paper::Rpac => "rpac",
            Paper::RequestOriented => "request-oriented",
        }
    }

    /// What it is called in a heading.
    pub fn title(self) -> &'static str {
        match self {
            Paper::Etica => "ETICA",
            Paper::EciCache => "ECI-Cache",
            Paper::Tica => "TICA",
            Paper::Rpac => "RPAC",
            Paper::RequestOriented => "Request-oriented write caching",
        }
    }

    /// Authors, title, where it appeared, and what of it was at hand.
    pub fn citation(self) -> &'static str {
        match self {
            Paper::Etica => {
                "Ahmadian, Salkhordeh, Mutlu, Asadi: ETICA: Efficient Two-Level I/O Caching Architecture for Virtualized \
                 Platforms. The text was at hand, not the pictures: figures are judged by what the text says \
                 of them"
            }
            Paper::EciCache => {
                "Ahmadian, Mutlu, Asadi: ECI-Cache: A High-Endurance and Cost-Efficient I/O Caching Scheme for Virtualized \
                 Platforms (SIGMETRICS 2018 abstract). The full paper was not at hand: the scheme is partly recalled and \
                 named eci-cache-like"
            }
            Paper::Tica => {
                "Salkhordeh, Hadizadeh, Asadi: An Efficient Hybrid I/O Caching Architecture Using Heterogeneous SSDs \
                 (TPDS 2019). The text was at hand, not the pictures"
            }
            Paper::Rpac => {
                "Ye et al.: A Regional Popularity-Aware Cache Replacement Algorithm to Improve the Performance and Lifetime \
                 of SSD-based Disk Cache. The text was at hand, not the pictures"
            }
            Paper::RequestOriented => {
                "S. Kim, H. Kim, S.-H. Kim, Lee, Jeong: Request-Oriented Durable Write Caching for Application Performance (USENIX ATC \
                 2015). The text was at hand, not the pictures"
            }
        }
    }
}
