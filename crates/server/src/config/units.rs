//! Values of the configuration that are more than a number or a string.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, de};

/// A number of bytes, written as a whole number or with a unit: `4096`, `"64KiB"`, `"2 GiB"`, `"0"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

const UNITS: [(&str, u64); 5] =
    [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let wrong = || format!("'{text}' is not a size; write a whole number and B, KiB, MiB, GiB or TiB");
        let (number, unit) = text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
        let unit = unit.trim();
        let is_unit = |name: &str| {
            let letter = unit.len() == 1 && name[..1].eq_ignore_ascii_case(unit);
            letter || name.eq_ignore_ascii_case(unit)
        };
        let factor = match UNITS.iter().find(|(name, _)| is_unit(name)) {
            Some((_, factor)) => *factor,
            None if unit.is_empty() => 1,
            None => return Err(wrong()),
        };
        number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)).map(Size).ok_or_else(wrong)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let largest = UNITS.iter().rev().find(|(_, factor)| self.0 >= *factor);
        let (name, factor) = largest.unwrap_or(&UNITS[0]);
        if self.0.is_multiple_of(*factor) {
            write!(f, "{} {name}", self.0 / factor)
        } else {
            write!(f, "{:.1} {name}", self.0 as f64 / *factor as f64)
        }
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Size, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Size;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as \"64MiB\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Size, E> {
                u64::try_from(number).map(Size).map_err(|_| E::custom("a size cannot be negative"))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// Where guests connect.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// A unix socket.
    Unix(PathBuf),
    /// A TCP port.
    Tcp(SocketAddr),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        match text.split_once(':') {
            Some(("unix", path)) if path.starts_with('/') => {
                // `sun_path` holds 108 bytes with the final zero.
                const MAX_PATH_BYTES: usize = 107;
                if path.len() > MAX_PATH_BYTES {
                    return Err(format!("a unix socket's path has at most {MAX_PATH_BYTES} bytes"));
                }
                Ok(Address::Unix(path.into()))
            }
            Some(("tcp", address)) => address.parse().map(Address::Tcp).map_err(|_| {
                format!("'{address}' is not an address; write IP:PORT, such as 127.0.0.1:10809")
            }),
            _ => Err(format!("'{text}' is not an address; write unix:/path or tcp:IP:PORT")),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Address, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_shown_with_units() {
        for (text, bytes) in
            [("0", 0), ("4096", 4096), ("64MiB", 64 << 20), ("3G", 3 << 30), ("2 tib", 2 << 40)]
        {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for wrong in ["", "MiB", "-1", "1.5KiB", "1MB", "99999999999TiB"] {
            assert!(wrong.parse::<Size>().is_err(), "{wrong}");
        }
        assert_eq!(Size(64 << 20).to_string(), "64 MiB");
        assert_eq!(Size(3 << 29).to_string(), "1.5 GiB");
        assert_eq!(Size(0).to_string(), "0 B");
    }

    #[test]
    fn addresses_are_absolute_paths_or_numbers() {
        assert_eq!("unix:/run/a.sock".parse(), Ok(Address::Unix("/run/a.sock".into())));
        assert_eq!("tcp:[::1]:10809".parse::<Address>().unwrap().to_string(), "tcp:[::1]:10809");
        for wrong in ["unix:a.sock", "tcp:localhost:1", "/run/a.sock", "udp:1.1.1.1:1"] {
            assert!(wrong.parse::<Address>().is_err(), "{wrong}");
        }
    }
}
