//! When a VM's dirty blocks are written back, as the configuration says it.

use std::fmt;
use std::time::Duration;

use lode_engine::{OrderedConfig, WriteBackLimits};
use serde::de::value::MapAccessDeserializer;
use serde::{Deserialize, Deserializer, de};

use super::Size;

/// When dirty blocks are written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteBack {
    /// When the scheme evicts or cleans them.
    Scheme,
    /// In the background as well.
    Background(BackgroundConfig),
    /// In the order of the guest's flushes.
    Ordered(OrderedKeys),
}

impl Default for WriteBack {
    fn default() -> WriteBack {
        WriteBack::Background(BackgroundConfig::default())
    }
}

/// When dirty blocks are written back in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackgroundConfig {
    /// Above so much the older ones are written back.
    pub dirty: Share,
    /// Above so much writes wait for write-backs.
    pub dirty_max: Share,
    /// Dirty blocks that were not written for so long are written back.
    pub age: Period,
    /// So long a VM asks for nothing before all of its dirty blocks are written back.
    pub idle: Period,
}

impl Default for BackgroundConfig {
    fn default() -> BackgroundConfig {
        let period = |s| Period(Some(Duration::from_secs(s)));
        BackgroundConfig {
            dirty: Share::Percent(50),
            dirty_max: Share::Percent(100),
            age: period(3600),
            idle: period(30),
        }
    }
}

/// How dirty blocks are written back in the order of the guest's flushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderedKeys {
    /// Writes wait when the disk is so far behind.
    pub max_lag: Period,
    /// Most bytes that are written as a whole.
    pub group_bytes: u64,
}

impl Default for OrderedKeys {
    fn default() -> OrderedKeys {
        OrderedKeys { max_lag: Period(Some(Duration::from_secs(30))), group_bytes: 64 << 20 }
    }
}

/// What a table says; which keys go together is looked at later.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTable {
    #[serde(default)]
    ordered: bool,
    max_lag: Option<Period>,
    group: Option<Size>,
    dirty: Option<Share>,
    dirty_max: Option<Share>,
    age: Option<Period>,
    idle: Option<Period>,
}

impl RawTable {
    fn check(self) -> Result<WriteBack, String> {
        let usual = BackgroundConfig::default();
        let RawTable { ordered, max_lag, group, dirty, dirty_max, age, idle } = self;
        let is_of_background = dirty.is_some() || dirty_max.is_some() || age.is_some() || idle.is_some();
        if !ordered {
            if max_lag.is_some() || group.is_some() {
                return Err("`max_lag` and `group` go with `ordered = true`".to_owned());
            }
            return Ok(WriteBack::Background(BackgroundConfig {
                dirty: dirty.unwrap_or(usual.dirty),
                dirty_max: dirty_max.unwrap_or(usual.dirty_max),
                age: age.unwrap_or(usual.age),
                idle: idle.unwrap_or(usual.idle),
            }));
        }
        if is_of_background {
            let wrong = "`dirty`, `dirty_max`, `age` and `idle` say nothing with `ordered = true`: everything is written back \
                         soon; use `max_lag` and `group`";
            return Err(wrong.to_owned());
        }
        let usual = OrderedKeys::default();
        let group_bytes = group.map_or(usual.group_bytes, |size| size.0);
        if !OrderedKeys::GROUP_BYTES.contains(&group_bytes) {
            return Err("`group` takes 1MiB to 4GiB".to_owned());
        }
        Ok(WriteBack::Ordered(OrderedKeys { max_lag: max_lag.unwrap_or(usual.max_lag), group_bytes }))
    }
}

impl OrderedKeys {
    const GROUP_BYTES: std::ops::RangeInclusive<u64> = 1 << 20..=4 << 30;
    /// Ticks from one group to the FLUSH with which the next one ends.
    const GROUP_TICKS: u32 = 1;
}

impl WriteBack {
    /// What an engine is told of it, before it is known what its redo log holds; none: nothing is in order.
    pub(crate) fn ordered(&self, block_bytes: u64) -> Option<OrderedConfig> {
        let WriteBack::Ordered(keys) = self else { return None };
        Some(OrderedConfig {
            group_blocks: (keys.group_bytes / block_bytes) as u32,
            group_ticks: OrderedKeys::GROUP_TICKS,
            max_lag_ticks: keys.max_lag.ticks(),
            last_group: 0,
            generation: 0,
        })
    }

    /// The limits for a VM with so many blocks on the SSD.
    pub fn limits(&self, ssd_blocks: u32, block_bytes: u64) -> Option<WriteBackLimits> {
        let WriteBack::Background(config) = self else { return None };
        let dirty_max_blocks = config.dirty_max.blocks(ssd_blocks, block_bytes);
        Some(WriteBackLimits {
            // A part and a size cannot be compared before; the one that loses less when the SSD fails counts.
            dirty_limit_blocks: config.dirty.blocks(ssd_blocks, block_bytes).min(dirty_max_blocks),
            dirty_max_blocks,
            age_ticks: config.age.ticks(),
            idle_ticks: config.idle.ticks(),
        })
    }
}

impl<'de> Deserialize<'de> for WriteBack {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<WriteBack, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = WriteBack;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "\"scheme\", \"background\", \"ordered\", or a table of `dirty`, `dirty_max`, `age` and `idle`, or of \
                     `ordered`, `max_lag` and `group`",
                )
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<WriteBack, E> {
                match text {
                    "scheme" => Ok(WriteBack::Scheme),
                    "background" => Ok(WriteBack::default()),
                    "ordered" => Ok(WriteBack::Ordered(OrderedKeys::default())),
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<WriteBack, A::Error> {
                let table = RawTable::deserialize(MapAccessDeserializer::new(map))?;
                let config = match table.check().map_err(de::Error::custom)? {
                    WriteBack::Background(config) => config,
                    other => return Ok(other),
                };
                let wrong_order = match (config.dirty, config.dirty_max) {
                    (Share::Percent(dirty), Share::Percent(most)) => most < dirty,
                    (Share::Bytes(dirty), Share::Bytes(most)) => most < dirty,
                    _ => false,
                };
                if wrong_order {
                    let wrong =
                        "`dirty_max` is less than `dirty`; writes would wait before anything is written back";
                    return Err(de::Error::custom(wrong));
                }
                Ok(WriteBack::Background(config))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// Part of a VM's share of the SSD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Of the share, up to 100.
    Percent(u8),
    /// No more than the share.
    Bytes(u64),
}

impl Share {
    fn blocks(self, ssd_blocks: u32, block_bytes: u64) -> u32 {
        match self {
            Share::Percent(percent) => (u64::from(ssd_blocks) * u64::from(percent) / 100) as u32,
            Share::Bytes(bytes) => (bytes / block_bytes).min(ssd_blocks.into()) as u32,
        }
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Share, D::Error> {
        const WRONG: &str = "write a part of the SSD share such as \"50%\", or a size such as \"10GiB\"";
        let text = String::deserialize(deserializer)?;
        let parsed = match text.trim().strip_suffix('%') {
            Some(percent) => {
                percent.trim().parse().ok().filter(|percent| *percent <= 100).map(Share::Percent)
            }
            None => text.parse::<Size>().ok().map(|size| Share::Bytes(size.0)),
        };
        parsed.ok_or_else(|| de::Error::custom(format!("'{text}' cannot be read; {WRONG}")))
    }
}

/// A time, or for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period(pub Option<Duration>);

impl Period {
    /// In ticks of an engine, which are about a second.
    pub(crate) fn ticks(self) -> Option<u32> {
        Some(self.0?.as_secs().clamp(1, u32::MAX.into()) as u32)
    }
}

impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Period, D::Error> {
        const UNITS: [(&str, u64); 4] = [("s", 1), ("min", 60), ("h", 3600), ("d", 86_400)];
        let text = String::deserialize(deserializer)?;
        if text == "never" {
            return Ok(Period(None));
        }
        let number_len = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(number_len);
        let unit = UNITS.into_iter().find(|(name, _)| *name == unit.trim());
        let seconds = unit.and_then(|(_, unit_s)| number.parse::<u32>().ok().map(|n| u64::from(n) * unit_s));
        match seconds.filter(|seconds| *seconds > 0) {
            Some(seconds) => Ok(Period(Some(Duration::from_secs(seconds)))),
            None => Err(de::Error::custom(format!(
                "'{text}' is not a time; write a whole number and s, min, h or d, such as \"30s\", or \"never\""
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct One {
        #[serde(default)]
        writeback: WriteBack,
    }

    fn limits(text: &str) -> Result<Option<WriteBackLimits>, String> {
        let one: One = toml::from_str(text).map_err(|error| error.to_string())?;
        Ok(one.writeback.limits(1000, 4096))
    }

    #[test]
    fn limits_are_blocks_and_ticks() {
        let usual = WriteBackLimits {
            dirty_limit_blocks: 500,
            dirty_max_blocks: 1000,
            age_ticks: Some(3600),
            idle_ticks: Some(30),
        };
        assert_eq!(limits(""), Ok(Some(usual)));
        assert_eq!(limits("writeback = \"background\""), Ok(Some(usual)));
        assert_eq!(limits("writeback = \"scheme\""), Ok(None));
        let table =
            "writeback = { dirty = \"1MiB\", dirty_max = \"40 %\", age = \"2min\", idle = \"never\" }";
        let expected = WriteBackLimits {
            dirty_limit_blocks: 256,
            dirty_max_blocks: 400,
            age_ticks: Some(120),
            idle_ticks: None,
        };
        assert_eq!(limits(table), Ok(Some(expected)));
        // Write-back begins no later than writes wait.
        for (table, expected) in [
            ("writeback = { dirty = \"1TiB\", dirty_max = \"10%\" }", (100, 100)),
            ("writeback = { dirty_max = \"1MiB\" }", (256, 256)),
            ("writeback = { dirty_max = \"1TiB\" }", (500, 1000)),
        ] {
            let found = limits(table).unwrap().unwrap();
            assert_eq!((found.dirty_limit_blocks, found.dirty_max_blocks), expected, "{table}");
        }
    }

    #[test]
    fn groups_are_blocks_and_ticks() {
        let ordered = |text: &str| {
            let one: One = toml::from_str(text).unwrap();
            assert_eq!(one.writeback.limits(1000, 4096), None);
            one.writeback.ordered(4096).unwrap()
        };
        let usual = OrderedConfig {
            group_blocks: 16_384,
            group_ticks: 1,
            max_lag_ticks: Some(30),
            last_group: 0,
            generation: 0,
        };
        assert_eq!(ordered("writeback = \"ordered\""), usual);
        assert_eq!(ordered("writeback = { ordered = true }"), usual);
        let table = "writeback = { ordered = true, max_lag = \"never\", group = \"1MiB\" }";
        assert_eq!(ordered(table), OrderedConfig { group_blocks: 256, max_lag_ticks: None, ..usual });
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (value, said) in [
            ("\"fast\"", "\"scheme\", \"background\", \"ordered\", or a table"),
            ("7", "\"scheme\", \"background\", \"ordered\", or a table"),
            ("{ max_lag = \"5s\" }", "go with `ordered = true`"),
            ("{ ordered = true, age = \"5s\" }", "say nothing with"),
            ("{ ordered = true, group = \"4KiB\" }", "1MiB to 4GiB"),
            ("{ ordered = true, max_lag = \"0s\" }", "not a time"),
            ("{ dirt = \"5%\" }", "unknown field `dirt`"),
            ("{ dirty = \"101%\" }", "such as \"50%\""),
            ("{ dirty = \"many\" }", "such as \"50%\""),
            ("{ dirty = \"50%\", dirty_max = \"40%\" }", "less than `dirty`"),
            ("{ age = \"0s\" }", "not a time"),
            ("{ age = \"5 weeks\" }", "s, min, h or d"),
            ("{ idle = \"soon\" }", "or \"never\""),
        ] {
            let error = limits(&format!("writeback = {value}")).expect_err(value);
            assert!(error.contains(said), "{value}: {error}");
        }
    }
}
