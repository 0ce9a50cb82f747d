//! Settings of schemes: what there is, what it may be, what it is.
//!
//! A scheme declares its settings as tables of [`SettingInfo`]; users set them as `KEY=VALUE` text. A
//! value is checked when it is set, so that whoever builds a scheme reads values that are known to fit.

use std::collections::{BTreeMap, BTreeSet};

/// The setting that says whether shares follow demand, where a scheme has it.
pub(crate) const SIZING: &str = "sizing";

/// The setting that says how many blocks a set has, where a scheme can have sets.
pub(crate) const ASSOC: &str = "assoc";

/// The setting that leaves sets away, with its value: any block may take any place of its level.
pub const UNDIVIDED: (&str, &str) = (ASSOC, "0");

/// Words of settings that are on or off.
pub(crate) const ON: &str = "on";
pub(crate) const OFF: &str = "off";

/// What values a setting takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SettingKind {
    /// A whole number in this range, both ends included.
    Integer {
        /// Smallest value.
        min: u64,
        /// Largest value.
        max: u64,
    },
    /// A whole number of requests in this range, both ends included. It is as much for a sample of the requests as so much
    /// fewer: see [`Settings::for_sample`].
    Requests {
        /// Smallest value.
        min: u64,
        /// Largest value.
        max: u64,
    },
    /// A number in this range, both ends included.
    Number {
        /// Smallest value.
        min: f64,
        /// Largest value.
        max: f64,
    },
    /// One of these words.
    Choice(&'static [&'static str]),
}

impl std::fmt::Display for SettingKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SettingKind::Integer { min, max: u64::MAX } => write!(f, "a whole number from {min}"),
            SettingKind::Integer { min, max } | SettingKind::Requests { min, max } => {
                write!(f, "a whole number from {min} to {max}")
            }
            SettingKind::Number { min, max } => write!(f, "a number from {min} to {max}"),
            SettingKind::Choice(words) => f.write_str(&words.join("|")),
        }
    }
}

/// One setting of a scheme.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SettingInfo {
    /// The name users write before `=`.
    pub key: &'static str,
    /// The value when nothing is set.
    pub default: &'static str,
    /// What it may be.
    pub kind: SettingKind,
    /// What it does.
    pub about: &'static str,
    /// Where the setting and its default come from.
    pub source: &'static str,
}

/// Why a setting was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// No such scheme.
    #[error("Unknown scheme '{name}'{}; `lode schemes` lists them", suggestion(.nearest))]
    UnknownScheme {
        /// What was asked for.
        name: String,
        /// The scheme with the nearest name, if one is near.
        nearest: Option<&'static str>,
    },
    /// The scheme has no such setting.
    #[error("Scheme '{scheme}' has no setting '{key}'{}; `lode schemes` lists them", suggestion(.nearest))]
    UnknownKey {
        /// The scheme.
        scheme: &'static str,
        /// What was asked for.
        key: String,
        /// The setting with the nearest name, if one is near.
        nearest: Option<&'static str>,
    },
    /// The value is not of the setting's kind or outside its range.
    #[error("Setting '{key}' cannot be '{value}': it takes {expected}")]
    BadValue {
        /// The setting.
        key: &'static str,
        /// What was asked for.
        value: String,
        /// What it takes.
        expected: String,
    },
    /// The text is not `KEY=VALUE`.
    #[error("'{text}' is not a setting; write KEY=VALUE")]
    NotAPair {
        /// The text.
        text: String,
    },
    /// The scheme needs the future, and whoever would run it cannot know it.
    #[error(
        "Scheme '{scheme}' decides by what comes next, which only a recorded trace can tell; run it with `lode replay` \
         or `lode compare`"
    )]
    NeedsFuture {
        /// The scheme.
        scheme: &'static str,
    },
    /// A future of more accesses than can be numbered.
    #[error(
        "One VM has 4,294,967,295 block accesses or more, of which no future can be told; replay a part of them"
    )]
    FutureTooLong,
    /// The scheme and the levels given to it do not fit each other.
    #[error("{0}")]
    Levels(String),
    /// The scheme decides by who asks, and the requests do not tell enough of that.
    #[error("{message}")]
    Origins {
        /// The setting that asks for it.
        key: &'static str,
        /// What is missing, and what to do.
        message: String,
    },
}

fn suggestion(nearest: &Option<&'static str>) -> String {
    nearest.map(|name| format!(" (did you mean '{name}'?)")).unwrap_or_default()
}

/// The settings of one scheme with their values.
#[derive(Clone, Debug)]
pub struct Settings {
    scheme: &'static str,
    infos: Vec<&'static SettingInfo>,
    values: BTreeMap<&'static str, String>,
    /// Keys of those that were set, also to their default.
    given: BTreeSet<&'static str>,
}

impl Settings {
    /// Every setting of the tables at its default.
    pub fn new(scheme: &'static str, tables: &[&'static [SettingInfo]]) -> Settings {
        let infos: Vec<_> = tables.iter().flat_map(|table| table.iter()).collect();
        let values = infos.iter().map(|info| (info.key, info.default.to_owned())).collect();
        Settings { scheme, infos, values, given: BTreeSet::new() }
    }

    /// The scheme these settings belong to.
    pub fn scheme(&self) -> &'static str {
        self.scheme
    }

    /// Sets one value.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SettingError> {
        let Some(info) = self.infos.iter().find(|info| info.key == key) else {
            let nearest = nearest_name(key, self.infos.iter().map(|info| info.key));
            return Err(SettingError::UnknownKey { scheme: self.scheme, key: key.to_owned(), nearest });
        };
        let fits = match info.kind {
            SettingKind::Integer { min, max } | SettingKind::Requests { min, max } => {
                value.parse().is_ok_and(|n: u64| (min..=max).contains(&n))
            }
            SettingKind::Number { min, max } => value.parse().is_ok_and(|n: f64| (min..=max).contains(&n)),
            SettingKind::Choice(words) => words.contains(&value),
        };
        if !fits {
            let expected = info.kind.to_string();
            return Err(SettingError::BadValue { key: info.key, value: value.to_owned(), expected });
        }
        self.values.insert(info.key, value.to_owned());
        self.given.insert(info.key);
        Ok(())
    }

    /// Sets one value from `KEY=VALUE`.
    pub fn set_pair(&mut self, text: &str) -> Result<(), SettingError> {
        let (key, value) =
            text.split_once('=').ok_or_else(|| SettingError::NotAPair { text: text.to_owned() })?;
        self.set(key.trim(), value.trim())
    }

    /// The value of a setting the scheme declared.
    pub fn text(&self, key: &str) -> &str {
        self.values.get(key).unwrap_or_else(|| panic!("scheme {} declares no setting {key}", self.scheme))
    }

    /// The value of a whole-number setting the scheme declared.
    pub fn integer(&self, key: &str) -> u64 {
        self.text(key).parse().expect("checked when it was set")
    }

    /// The value of a number setting the scheme declared.
    pub fn number(&self, key: &str) -> f64 {
        self.text(key).parse().expect("checked when it was set")
    }

    /// Whether an `on|off` setting is on.
    pub fn is_on(&self, key: &str) -> bool {
        self.text(key) == ON
    }

    /// The same settings for a stream of which only the share `rate` is seen, above 0 and up to 1: what counts requests
    /// counts that much fewer, but at least as many as it has to.
    pub fn for_sample(&self, rate: f64) -> Settings {
        let mut scaled = self.clone();
        for info in &self.infos {
            if let SettingKind::Requests { min, max } = info.kind {
                let requests = (self.integer(info.key) as f64 * rate).round() as u64;
                scaled.values.insert(info.key, requests.clamp(min, max).to_string());
            }
        }
        scaled
    }

    /// The same settings with every VM's shares as they are given; those of a scheme that never changes them, as they are.
    pub fn without_sizing(mut self) -> Settings {
        if let Some(sizing) = self.values.get_mut(SIZING) {
            OFF.clone_into(sizing);
        }
        self
    }

    /// Blocks of a set, 0 where any block may take any place; `None` where the scheme knows no sets, so that it is always so.
    pub fn assoc(&self) -> Option<u64> {
        self.values.contains_key(ASSOC).then(|| self.integer(ASSOC))
    }

    /// Whether somebody said how many blocks a set has.
    pub fn is_assoc_given(&self) -> bool {
        self.given.contains(ASSOC)
    }

    /// The same settings without sets, unless they were asked for; those of a scheme that knows none, as they are.
    pub fn without_sets(mut self) -> Settings {
        let (key, value) = UNDIVIDED;
        if let Some(assoc) = self.values.get_mut(key).filter(|_| !self.given.contains(key)) {
            value.clone_into(assoc);
        }
        self
    }

    /// Every setting with its value, by name.
    pub fn values(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.values.iter().map(|(key, value)| (*key, value.as_str()))
    }
}

/// Fewest letters that must be given of a longer name for it to be the one that was meant.
const LEAST_BEGINNING: usize = 3;

/// The name that was likely meant: the shortest that begins with `asked`, whatever the case of its letters, or else the one
/// that differs least from it, if it differs in less than half of its letters.
pub(crate) fn nearest_name(asked: &str, names: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let asked = asked.to_ascii_lowercase();
    let begins = |name: &str| asked.len() >= LEAST_BEGINNING && name.starts_with(&asked);
    names
        .map(|name| (!begins(name), edit_distance(&asked, name), name))
        .min()
        .filter(|&(differs, distance, name)| !differs || distance * 2 <= name.len())
        .map(|(_, _, name)| name)
}

/// Levenshtein distance in bytes; `asked` is cut at a length no name comes near.
fn edit_distance(asked: &str, name: &str) -> usize {
    const LONGEST_ASKED: usize = 64;
    let asked = &asked.as_bytes()[..asked.len().min(LONGEST_ASKED)];
    let mut row: Vec<usize> = (0..=name.len()).collect();
    for (i, a) in asked.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in name.bytes().enumerate() {
            let replace = diagonal + usize::from(*a != b);
            diagonal = row[j + 1];
            row[j + 1] = replace.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[name.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    static TABLE: &[SettingInfo] = &[
        SettingInfo {
            key: "ageing",
            default: "0.9",
            kind: SettingKind::Number { min: 0.0, max: 1.0 },
            about: "",
            source: "",
        },
        SettingInfo {
            key: "mode",
            default: "a",
            kind: SettingKind::Choice(&["a", "b"]),
            about: "",
            source: "",
        },
        SettingInfo {
            key: "interval",
            default: "1000",
            kind: SettingKind::Requests { min: 2, max: 5000 },
            about: "",
            source: "",
        },
        SettingInfo {
            key: "blocks",
            default: "1000",
            kind: SettingKind::Integer { min: 2, max: 5000 },
            about: "",
            source: "",
        },
    ];

    #[test]
    fn values_are_checked_when_set() {
        let mut settings = Settings::new("x", &[TABLE]);
        assert_eq!(settings.number("ageing"), 0.9);
        settings.set_pair("ageing=0.5").unwrap();
        assert_eq!(settings.number("ageing"), 0.5);
        let error = settings.set_pair("ageing=1.5").unwrap_err();
        assert_eq!(error.to_string(), "Setting 'ageing' cannot be '1.5': it takes a number from 0 to 1");
        for nonsense in ["ageing=NaN", "ageing=", "mode=c", "mode"] {
            assert!(settings.set_pair(nonsense).is_err(), "{nonsense}");
        }
    }

    #[test]
    fn requests_shrink_with_a_sample_and_nothing_else_does() {
        let settings = Settings::new("x", &[TABLE]);
        for (rate, expected) in [(1.0, 1000), (0.1, 100), (0.0256, 26), (1e-9, 2)] {
            let scaled = settings.for_sample(rate);
            assert_eq!((scaled.integer("interval"), scaled.integer("blocks")), (expected, 1000));
        }
        assert!(Settings::new("x", &[TABLE]).set("interval", "5001").is_err());
    }

    #[test]
    fn sets_are_left_away_unless_they_were_asked_for() {
        static SETS: &[SettingInfo] = &[SettingInfo {
            key: ASSOC,
            default: "512",
            kind: SettingKind::Integer { min: 0, max: 1 << 20 },
            about: "",
            source: "",
        }];
        let settings = Settings::new("x", &[SETS]);
        assert_eq!((settings.assoc(), settings.is_assoc_given()), (Some(512), false));
        let without = settings.clone().without_sets();
        assert_eq!((without.assoc(), without.is_assoc_given()), (Some(0), false));
        let mut given = settings;
        given.set(ASSOC, "512").unwrap();
        assert_eq!((given.is_assoc_given(), given.without_sets().assoc()), (true, Some(512)));
        assert_eq!(Settings::new("x", &[TABLE]).without_sets().assoc(), None);
    }

    #[test]
    fn a_misspelt_key_names_the_nearest() {
        let mut settings = Settings::new("x", &[TABLE]);
        let error = settings.set_pair("aging=1").unwrap_err().to_string();
        assert!(error.contains("did you mean 'ageing'?"), "{error}");
        let error = settings.set_pair("zzzz=1").unwrap_err().to_string();
        assert!(!error.contains("did you mean"), "{error}");
    }
    #[test]
    fn the_name_that_was_meant_is_found() {
        let names = ["etica", "l2arc-like", "lru", "larc", "tica-adaptive", "tica-ef", "ucache-like"];
        for (asked, meant) in [
            ("tica", Some("tica-ef")),
            ("TICA", Some("tica-ef")),
            ("l2arc", Some("l2arc-like")),
            ("UCache", Some("ucache-like")),
            ("etika", Some("etica")),
            ("lr", Some("lru")),
            ("la", Some("larc")),
            ("", None),
            ("zzzzzz", None),
        ] {
            assert_eq!(nearest_name(asked, names.into_iter()), meant, "{asked}");
        }
    }
}
