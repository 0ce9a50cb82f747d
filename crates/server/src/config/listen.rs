//! Where guests connect, and which users of the host may.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use serde::de::{self, MapAccess, value::MapAccessDeserializer};
use serde::{Deserialize, Deserializer};

/// Where clients connect.
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
            _ => text
                .parse()
                .map(Address::Tcp)
                .map_err(|_| format!("'{text}' is not an address; write unix:/path or tcp:IP:PORT")),
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

/// One entry of `listen`: an address alone, or with who may connect to its unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Where.
    pub address: Address,
    /// The socket's permission bits; without, the process's umask decides.
    pub mode: Option<u32>,
    /// Name or number of the socket's group; without, it is the process's.
    pub group: Option<String>,
}

impl From<Address> for Listen {
    fn from(address: Address) -> Listen {
        Listen { address, mode: None, group: None }
    }
}

/// The entry as a table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    address: Address,
    mode: Option<String>,
    group: Option<String>,
}

impl TryFrom<Table> for Listen {
    type Error = String;

    fn try_from(Table { address, mode, group }: Table) -> Result<Listen, String> {
        if matches!(address, Address::Tcp(_)) && (mode.is_some() || group.is_some()) {
            return Err(format!("'mode' and 'group' are of unix sockets, and {address} is none"));
        }
        if group.as_ref().is_some_and(String::is_empty) {
            return Err("Key 'group' is empty; name a group of this host".to_owned());
        }
        Ok(Listen { address, mode: mode.map(|text| parse_mode(&text)).transpose()?, group })
    }
}

fn parse_mode(text: &str) -> Result<u32, String> {
    let is_octal = (3..=4).contains(&text.len()) && text.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| is_octal && *mode <= 0o777);
    mode.ok_or_else(|| format!("Key 'mode' cannot be '{text}': write permission bits such as \"0660\""))
}

impl<'de> Deserialize<'de> for Listen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Listen, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Listen;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an address such as \"unix:/run/a.sock\", or { address, mode, group }")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Listen, E> {
                text.parse::<Address>().map(Listen::from).map_err(E::custom)
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Listen, A::Error> {
                Table::deserialize(MapAccessDeserializer::new(map))?.try_into().map_err(de::Error::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// The control socket: a path alone, or with who may connect.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RawControl {
    pub path: Option<PathBuf>,
    pub mode: Option<u32>,
    pub group: Option<String>,
}

/// The same as a table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ControlTable {
    path: Option<PathBuf>,
    mode: Option<String>,
    group: Option<String>,
}

impl<'de> Deserialize<'de> for RawControl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RawControl, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = RawControl;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an absolute path, or { path, mode, group }")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<RawControl, E> {
                Ok(RawControl { path: Some(text.into()), mode: None, group: None })
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RawControl, A::Error> {
                let ControlTable { path, mode, group } =
                    ControlTable::deserialize(MapAccessDeserializer::new(map))?;
                if group.as_ref().is_some_and(String::is_empty) {
                    return Err(de::Error::custom("Key 'group' is empty; name a group of this host"));
                }
                let mode = mode.map(|text| parse_mode(&text)).transpose().map_err(de::Error::custom)?;
                Ok(RawControl { path, mode, group })
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// Permission bits of a control socket that says nothing of them: those who may connect may do anything.
pub(super) fn usual_control_mode(has_group: bool) -> u32 {
    if has_group { 0o660 } else { 0o600 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_absolute_paths_or_numbers() {
        assert_eq!("unix:/run/a.sock".parse(), Ok(Address::Unix("/run/a.sock".into())));
        for port in ["tcp:[::1]:10809", "[::1]:10809"] {
            assert_eq!(port.parse::<Address>().unwrap().to_string(), "tcp:[::1]:10809");
        }
        for wrong in ["unix:a.sock", "tcp:localhost:1", "/run/a.sock", "udp:1.1.1.1:1"] {
            assert!(wrong.parse::<Address>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_control_socket_is_a_path_or_a_table() {
        #[derive(Deserialize)]
        struct One {
            control: RawControl,
        }
        let read = |value: &str| toml::from_str::<One>(&format!("control = {value}")).map(|one| one.control);
        let control = |path: Option<&str>, mode, group: Option<&str>| RawControl {
            path: path.map(PathBuf::from),
            mode,
            group: group.map(str::to_owned),
        };
        assert_eq!(read("\"/a\""), Ok(control(Some("/a"), None, None)));
        assert_eq!(read("{ group = \"ops\" }"), Ok(control(None, None, Some("ops"))));
        assert_eq!(read("{ path = \"/a\", mode = \"0666\" }"), Ok(control(Some("/a"), Some(0o666), None)));
        for (value, advice) in [
            ("7", "an absolute path, or { path"),
            ("{ mode = \"9\" }", "permission bits"),
            ("{ group = \"\" }", "name a group"),
            ("{ address = \"unix:/a\" }", "address"),
        ] {
            let message = read(value).map_err(|error| error.to_string()).expect_err(value);
            assert!(message.contains(advice), "{value}: {message}");
        }
        assert_eq!([false, true].map(usual_control_mode), [0o600, 0o660]);
    }

    #[test]
    fn entries_are_addresses_or_tables() {
        #[derive(Deserialize)]
        struct One {
            listen: Listen,
        }
        let read = |value: &str| toml::from_str::<One>(&format!("listen = {value}")).map(|one| one.listen);
        let plain = Listen::from(Address::Unix("/a".into()));
        assert_eq!(read("\"unix:/a\""), Ok(plain.clone()));
        assert_eq!(read("{ address = \"unix:/a\" }"), Ok(plain.clone()));
        let (mode, group) = (Some(0o660), Some("kvm".to_owned()));
        assert_eq!(
            read("{ address = \"unix:/a\", mode = \"0660\", group = \"kvm\" }"),
            Ok(Listen { mode, group, ..plain })
        );
        for (value, advice) in [
            ("7", "an address such as"),
            ("{ mode = \"0660\" }", "address"),
            ("{ address = \"unix:/a\", mod = \"0660\" }", "mod"),
            ("{ address = \"unix:/a\", mode = 660 }", "string"),
            ("{ address = \"unix:/a\", mode = \"0o660\" }", "permission bits"),
            ("{ address = \"unix:/a\", mode = \"0668\" }", "permission bits"),
            ("{ address = \"unix:/a\", mode = \"4755\" }", "permission bits"),
            ("{ address = \"unix:/a\", group = \"\" }", "name a group"),
            ("{ address = \"tcp:127.0.0.1:1\", mode = \"0660\" }", "of unix sockets"),
        ] {
            let message = read(value).map_err(|error| error.to_string()).expect_err(value);
            assert!(message.contains(advice), "{value}: {message}");
        }
    }
}
