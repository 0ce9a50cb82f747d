//! Settings of schemes: what there is, what it may be, what it is.
//!
//! A scheme declares its settings as tables of [`SettingInfo`]; users set them as `KEY=VALUE` text. A
//! value is checked when it is set, so that whoever builds a scheme reads values that are known to fit.

use std::collections::{BTreeMap, BTreeSet};

use lode_types::{BlockSize, parse_daily_bytes};

/// The setting that says whether shares follow demand, where a scheme has it.
pub(crate) const SIZING: &str = "sizing";

/// The setting that says how many blocks a set has, where a scheme can have sets.
pub(crate) const ASSOC: &str = "assoc";

/// The setting that leaves sets out, with its value: any block may take any place of its level.
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
    /// A whole number of requests, accesses or blocks in this range, both ends included, of which a sample of the blocks has
    /// so much fewer: see [`Settings::for_sample`]. An [`SettingKind::Integer`] means the same for a sample.
    Scaled {
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
    /// Blocks for each hundred block accesses, up to so many; or a size for each day (see [`WriteBudget`]).
    Budget {
        /// Most blocks.
        max: f64,
    },
}

/// How many blocks may be written to an SSD.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WriteBudget {
    /// Any number.
    Any,
    /// So many for each block access.
    PerAccess(f64),
    /// So many for each day.
    PerDay(f64),
}

/// Bytes for each day, or blocks for each hundred accesses; none for a text that is neither.
#[derive(Clone, Copy, Debug, PartialEq)]
enum BudgetText {
    Daily(u64),
    Percent(f64),
}

impl BudgetText {
    fn parse(text: &str, max: f64) -> Option<BudgetText> {
        match parse_daily_bytes(text) {
            Ok(bytes) => Some(BudgetText::Daily(bytes)),
            Err(_) => {
                text.parse().ok().filter(|percent| (0.0..=max).contains(percent)).map(BudgetText::Percent)
            }
        }
    }
}

impl std::fmt::Display for SettingKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SettingKind::Integer { min, max: u64::MAX } | SettingKind::Scaled { min, max: u64::MAX } => {
                write!(f, "a whole number from {min}")
            }
            SettingKind::Integer { min, max } | SettingKind::Scaled { min, max } => {
                write!(f, "a whole number from {min} to {max}")
            }
            SettingKind::Number { min, max } => write!(f, "a number from {min} to {max}"),
            SettingKind::Choice(words) => f.write_str(&words.join("|")),
            SettingKind::Budget { max } => {
                write!(f, "a number from 0 to {max}, or a size for each day such as 50GiB/day")
            }
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

/// Constructors of tables: key, default, what it may be.
impl SettingInfo {
    const fn new(key: &'static str, default: &'static str, kind: SettingKind) -> SettingInfo {
        SettingInfo { key, default, kind, about: "", source: "" }
    }

    /// A [`SettingKind::Integer`].
    pub const fn integer(key: &'static str, default: &'static str, min: u64, max: u64) -> SettingInfo {
        SettingInfo::new(key, default, SettingKind::Integer { min, max })
    }

    /// A [`SettingKind::Scaled`].
    pub const fn scaled(key: &'static str, default: &'static str, min: u64, max: u64) -> SettingInfo {
        SettingInfo::new(key, default, SettingKind::Scaled { min, max })
    }

    /// A [`SettingKind::Number`].
    pub const fn number(key: &'static str, default: &'static str, min: f64, max: f64) -> SettingInfo {
        SettingInfo::new(key, default, SettingKind::Number { min, max })
    }

    /// A [`SettingKind::Choice`].
    pub const fn choice(
        key: &'static str,
        default: &'static str,
        words: &'static [&'static str],
    ) -> SettingInfo {
        SettingInfo::new(key, default, SettingKind::Choice(words))
    }

    /// A [`SettingKind::Budget`].
    pub const fn budget(key: &'static str, default: &'static str, max: f64) -> SettingInfo {
        SettingInfo::new(key, default, SettingKind::Budget { max })
    }

    /// What it does.
    pub const fn about(self, about: &'static str) -> SettingInfo {
        SettingInfo { about, ..self }
    }

    /// Where it and its default come from.
    pub const fn source(self, source: &'static str) -> SettingInfo {
        SettingInfo { source, ..self }
    }
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
    #[error("Scheme '{scheme}' has no setting '{key}'{}{}; {listed_by} lists them", suggestion(.nearest), whose(.others))]
    UnknownKey {
        /// The scheme.
        scheme: &'static str,
        /// What was asked for.
        key: String,
        /// The setting with the nearest name, if one is near.
        nearest: Option<&'static str>,
        /// Schemes that have one of this name.
        others: Vec<&'static str>,
        /// The command that lists them.
        listed_by: &'static str,
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
    /// One list has two values for a setting.
    #[error("Setting '{key}' is given twice, as '{}' and '{}'; give it once", .values[0], .values[1])]
    Twice {
        /// The setting.
        key: &'static str,
        /// The values, in their order.
        values: [String; 2],
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
    /// What a setting speaks of is not on the disk.
    #[error(
        "Setting {key}={value} lies beyond the disk, which has {disk_blocks} blocks; set it to where it is"
    )]
    BeyondDisk {
        /// The setting.
        key: &'static str,
        /// Its value, in blocks.
        value: u64,
        /// What there is.
        disk_blocks: u64,
    },
    /// The scheme decides by what a sample of the blocks does not have.
    #[error(
        "Scheme '{scheme}' decides by {what}, of which a sample of the blocks has none; look at all blocks, without --sample, \
         or set {key}={without}"
    )]
    NotInSample {
        /// The scheme.
        scheme: &'static str,
        /// What it decides by.
        what: &'static str,
        /// The setting that asks for it.
        key: &'static str,
        /// The value with which it does not.
        without: &'static str,
    },
    /// A setting counts what is done or passes in a time, and the requests have none.
    #[error("Setting {key}={value} counts {what}, and these requests have no times; set {key} to {instead}")]
    NeedsTimes {
        /// The setting.
        key: &'static str,
        /// Its value.
        value: String,
        /// What it counts.
        what: &'static str,
        /// What it may be instead.
        instead: String,
    },
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

/// Who has such a setting, if anybody does.
fn whose(others: &[&'static str]) -> String {
    /// More are not named.
    const NAMED: usize = 3;
    if others.is_empty() {
        return String::new();
    }
    let names: Vec<String> = others.iter().take(NAMED).map(|name| format!("'{name}'")).collect();
    let (names, more) = (names.join(", "), if others.len() > NAMED { " and others" } else { "" });
    format!("; {names}{more} {} one", if others.len() == 1 { "has" } else { "have" })
}

/// The settings of one scheme with their values.
#[derive(Clone, Debug)]
pub struct Settings {
    scheme: &'static str,
    listed_by: &'static str,
    infos: Vec<&'static SettingInfo>,
    values: BTreeMap<&'static str, String>,
    /// Keys of those that were set, also to their default.
    given: BTreeSet<&'static str>,
    block: BlockSize,
    /// Which schemes have a setting of a name.
    others: fn(&str) -> Vec<&'static str>,
}

/// Two are equal when a scheme cannot tell them apart, whether a value was given or is the default.
impl PartialEq for Settings {
    fn eq(&self, other: &Settings) -> bool {
        self.scheme == other.scheme && self.values == other.values && self.block == other.block
    }
}

impl Settings {
    /// Every setting of the tables at its default.
    pub fn new(scheme: &'static str, tables: &[&'static [SettingInfo]]) -> Settings {
        let infos: Vec<_> = tables.iter().flat_map(|table| table.iter()).collect();
        let values = infos.iter().map(|info| (info.key, info.default.to_owned())).collect();
        let (given, block) = (BTreeSet::new(), BlockSize::KIB_4);
        Settings { scheme, listed_by: "`lode schemes`", infos, values, given, block, others: |_| Vec::new() }
    }

    /// The same for blocks of this size, which are of 4 KiB unless it is said.
    pub fn for_blocks(mut self, block: BlockSize) -> Settings {
        self.block = block;
        self
    }

    /// The same, where another command than `lode schemes` lists them.
    pub fn listed_by(mut self, command: &'static str) -> Settings {
        self.listed_by = command;
        self
    }

    /// The same, where it is known which schemes have a setting of a name.
    pub(crate) fn found_in(mut self, others: fn(&str) -> Vec<&'static str>) -> Settings {
        self.others = others;
        self
    }

    /// The scheme these settings belong to.
    pub fn scheme(&self) -> &'static str {
        self.scheme
    }

    /// Sets one value.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SettingError> {
        let Some(info) = self.infos.iter().find(|info| info.key == key) else {
            let Settings { scheme, listed_by, others, .. } = *self;
            let (others, key) = (others(key), key.to_owned());
            // What another scheme has was not mistyped.
            let is_mistyped = |_: &&str| others.is_empty();
            let nearest = nearest_name(&key, self.infos.iter().map(|info| info.key)).filter(is_mistyped);
            return Err(SettingError::UnknownKey { scheme, key, nearest, others, listed_by });
        };
        let fits = match info.kind {
            SettingKind::Integer { min, max } | SettingKind::Scaled { min, max } => {
                value.parse().is_ok_and(|n: u64| (min..=max).contains(&n))
            }
            SettingKind::Number { min, max } => value.parse().is_ok_and(|n: f64| (min..=max).contains(&n)),
            SettingKind::Choice(words) => words.contains(&value),
            SettingKind::Budget { max } => BudgetText::parse(value, max).is_some(),
        };
        if !fits {
            let expected = info.kind.to_string();
            return Err(SettingError::BadValue { key: info.key, value: value.to_owned(), expected });
        }
        self.values.insert(info.key, value.to_owned());
        self.given.insert(info.key);
        Ok(())
    }

    /// Sets one value from `KEY=VALUE`, unless it is set already: in a list of such pairs, two values for a key are a mistake.
    pub fn set_pair(&mut self, text: &str) -> Result<(), SettingError> {
        let (key, value) =
            text.split_once('=').ok_or_else(|| SettingError::NotAPair { text: text.to_owned() })?;
        let (key, value) = (key.trim(), value.trim());
        if let Some(&key) = self.given.get(key) {
            return Err(SettingError::Twice { key, values: [self.text(key).to_owned(), value.to_owned()] });
        }
        self.set(key, value)
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

    /// The value of a budget that the scheme declared.
    pub fn budget(&self, key: &str) -> WriteBudget {
        match BudgetText::parse(self.text(key), f64::INFINITY).expect("checked when it was set") {
            BudgetText::Percent(0.0) => WriteBudget::Any,
            BudgetText::Percent(percent) => WriteBudget::PerAccess(percent / 100.0),
            BudgetText::Daily(bytes) => WriteBudget::PerDay(bytes as f64 / self.block.bytes() as f64),
        }
    }

    /// The settings that are budgets, each with what it is.
    pub fn budgets(&self) -> impl Iterator<Item = (&'static str, WriteBudget)> {
        let are_budgets = self.infos.iter().filter(|info| matches!(info.kind, SettingKind::Budget { .. }));
        are_budgets.map(|info| (info.key, self.budget(info.key)))
    }

    /// The setting that counts bytes for each day, if one does: requests without times mean nothing to it.
    pub(crate) fn daily_budget(&self) -> Option<&'static str> {
        let daily = self.budgets().find(|(_, budget)| matches!(budget, WriteBudget::PerDay(_)));
        daily.map(|(key, _)| key)
    }

    /// Whether an `on|off` setting is on.
    pub fn is_on(&self, key: &str) -> bool {
        self.text(key) == ON
    }

    /// Whether a scheme is to measure what its VM could use, because shares follow it.
    pub fn measures_demand(&self) -> bool {
        self.values.get(SIZING).is_some_and(|sizing| sizing != OFF)
    }

    /// The same settings for a stream of which only the share `rate` of the blocks is seen, above 0 and up to 1: what counts
    /// requests, accesses or blocks counts that much fewer, but at least as many as it has to. What a sample cannot tell is
    /// another question: see [`SchemeInfo::check_sample`](crate::SchemeInfo::check_sample).
    pub fn for_sample(&self, rate: f64) -> Settings {
        let mut scaled = self.clone();
        for info in &self.infos {
            let value = match info.kind {
                SettingKind::Scaled { min, max } => {
                    let requests = (self.integer(info.key) as f64 * rate).round() as u64;
                    requests.clamp(min, max).to_string()
                }
                SettingKind::Budget { max } => match BudgetText::parse(self.text(info.key), max) {
                    Some(BudgetText::Daily(bytes)) => {
                        format!("{}/day", ((bytes as f64 * rate).round() as u64).max(1))
                    }
                    _ => continue,
                },
                _ => continue,
            };
            scaled.values.insert(info.key, value);
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
const LEAST_BEGINNING: usize = 2;

/// The name that was likely meant: the shortest that begins with `asked`, whatever the case of its letters and wherever it has
/// dashes, or else the one that differs least from it, if it differs in less than half of its letters.
pub fn nearest_name<'n>(asked: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let asked = letters(asked);
    let compared = names.map(|name| {
        let letters = letters(name);
        let begins = asked.len() >= LEAST_BEGINNING && letters.starts_with(&asked);
        let distance = edit_distance(&asked, &letters);
        (begins || distance * 2 < letters.len()).then_some((!begins, distance, name))
    });
    compared.flatten().min().map(|(_, _, name)| name)
}

/// A name without what people leave out or write otherwise.
fn letters(name: &str) -> String {
    name.chars().filter(|letter| !matches!(letter, '-' | '_' | ' ')).collect::<String>().to_ascii_lowercase()
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
