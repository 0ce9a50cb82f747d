//! The profiles that come with the program. It must not know what is in them.

use crate::error::SynthError;
use crate::profile::Profile;

/// A file of `profiles/`, by its name.
macro_rules! profile {
    ($name:literal) => {
        ($name, include_str!(concat!("../profiles/", $name, ".toml")))
    };
}

/// Names and texts.
static BUILTINS: [(&str, &str); 30] = [
    profile!("devtoolrel"),
    profile!("exchange"),
    profile!("filebench-varmail"),
    profile!("filebench-video"),
    profile!("filebench-web"),
    profile!("fio-randrw"),
    profile!("fiu-mail"),
    profile!("fiu-webvm"),
    profile!("hm_1"),
    profile!("livemapsbe"),
    profile!("mds_0"),
    profile!("mds_1"),
    profile!("msnfs"),
    profile!("postmark"),
    profile!("prn_0"),
    profile!("proj_0"),
    profile!("prxy_0"),
    profile!("rpac-varmail"),
    profile!("rpac-webproxy"),
    profile!("rsrch_0"),
    profile!("src1_2"),
    profile!("src1_2-tica"),
    profile!("src2_0"),
    profile!("stg_1"),
    profile!("tpcc"),
    profile!("ts_0"),
    profile!("usr_0"),
    profile!("wdev_0"),
    profile!("web_3"),
    profile!("webserver"),
];

/// Name and TOML text of every profile that comes with the program.
pub fn builtins() -> impl Iterator<Item = (&'static str, &'static str)> {
    BUILTINS.into_iter()
}

/// The profile of this name, if one comes with the program.
///
/// # Errors
/// As [`Profile::parse`]; a test parses them all.
pub fn builtin(name: &str) -> Result<Option<Profile>, SynthError> {
    builtins().find(|(known, _)| *known == name).map(|(name, text)| Profile::parse(text, name)).transpose()
}
