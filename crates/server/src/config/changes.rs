//! What of a new configuration a running daemon can take over, and what has to wait for a restart. It must not know how.

use std::collections::BTreeSet;

use toml::{Table, Value};

use super::{Config, VmConfig, WriteBack};

/// Keys that may change while VMs are served.
const LIVE: [&str; 3] = ["limits", "host", "danger_zone"];
const LIVE_OF_VM: [&str; 10] =
    ["writeback", "scrub", "limits", "weight", "min", "max", "dram", "ssd", "scheme", "settings"];

/// What is different in a new configuration, all of which can be applied while guests are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    /// The keys that are different.
    pub keys: Vec<String>,
}

impl Changes {
    /// What a daemon that runs with `old` has to change for `new`, which has the same VMs.
    ///
    /// # Errors
    /// The keys that can only change with a restart, if there are any.
    pub fn between(old: &Config, new: &Config) -> Result<Changes, Vec<String>> {
        let (mut live, mut fixed) = (Vec::new(), Vec::new());
        for key in different(&old.document, &new.document) {
            match key.as_str() {
                key_ if LIVE.contains(&key_) => live.push(key),
                "vm" => compare_vms(&old.document, &new.document, &mut live, &mut fixed),
                _ => fixed.push(key),
            }
        }
        // The redo log is opened, and what is dirty counted, when a volume is recovered.
        let is_ordered = |vm: &VmConfig| matches!(vm.write_back, WriteBack::Ordered(_));
        for (before, after) in
            old.vms.iter().flat_map(|vm| Some((vm, new.vms.iter().find(|other| other.name == vm.name)?)))
        {
            if before.write_back != after.write_back && (is_ordered(before) || is_ordered(after)) {
                live.retain(|key| *key != format!("writeback of VM {}", before.name));
                fixed.push(format!("writeback of VM {}, which is or becomes \"ordered\"", before.name));
            }
        }
        // Schemes begin to measure when they are made.
        if old.host.mode.measures() != new.host.mode.measures() {
            let [from, to] = [old, new].map(|config| config.host.mode.name());
            fixed.push(format!("mode of the host, from \"{from}\" to \"{to}\""));
        }
        if !fixed.is_empty() {
            return Err(fixed);
        }
        Ok(Changes { keys: live })
    }
}

fn compare_vms(old: &Table, new: &Table, live: &mut Vec<String>, fixed: &mut Vec<String>) {
    let (old, new) = (vms(old), vms(new));
    let of = |name: &str| old.iter().find(|vm| vm.get("name").and_then(Value::as_str) == Some(name));
    for (new, name) in new.iter().map(|vm| (vm, name(vm))) {
        let Some(old) = of(&name) else {
            fixed.push(format!("VM {name}"));
            continue;
        };
        for key in different(old, new) {
            let list = if LIVE_OF_VM.contains(&key.as_str()) { &mut *live } else { &mut *fixed };
            list.push(format!("{key} of VM {name}"));
        }
    }
}

/// Keys with another value, or that only one of them has.
fn different(old: &Table, new: &Table) -> Vec<String> {
    let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    keys.into_iter().filter(|key| old.get(*key) != new.get(*key)).cloned().collect()
}

fn vms(document: &Table) -> Vec<&Table> {
    let vms = document.get("vm").and_then(Value::as_array);
    vms.map_or_else(Vec::new, |vms| vms.iter().filter_map(Value::as_table).collect())
}

fn name(vm: &Table) -> String {
    vm.get("name").and_then(Value::as_str).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const TEXT: &str = r#"
name = "a"
spin_us = 5
[limits]
connections = 4
[[vm]]
name = "one"
backing = { path = "/disks/one" }
listen = ["unix:/run/one"]
[[vm]]
name = "two"
backing = { path = "/disks/two" }
listen = ["unix:/run/two"]
writeback = { age = "2min" }
"#;

    fn changes(replace: &[(&str, &str)]) -> Result<Changes, Vec<String>> {
        let read = |text: &str| Config::parse(text, Path::new("a.toml")).unwrap();
        let text = replace.iter().fold(TEXT.to_owned(), |text, (from, to)| {
            assert!(text.contains(from), "{from}");
            text.replacen(from, to, 1)
        });
        Changes::between(&read(TEXT), &read(&text))
    }

    #[test]
    fn limits_and_write_back_change_live() {
        assert_eq!(changes(&[]).unwrap().keys, [""; 0]);
        assert_eq!(changes(&[("spin_us = 5", "# Nothing new.\nspin_us = 5")]).unwrap().keys, [""; 0]);
        let found = changes(&[
            ("connections = 4", "connections = 5"),
            ("{ age = \"2min\" }", "\"scheme\""),
            ("listen = [\"unix:/run/one\"]", "listen = [\"unix:/run/one\"]\nwriteback = { dirty = \"5%\" }"),
        ]);
        let found = found.unwrap();
        assert_eq!(found.keys, ["limits", "writeback of VM one", "writeback of VM two"]);
        let more = [(
            "listen = [\"unix:/run/one\"]",
            "listen = [\"unix:/run/one\"]\nweight = 2\nmin = { dram = 0 }",
        )];
        assert_eq!(changes(&more).unwrap().keys, ["min of VM one", "weight of VM one"]);
        assert_eq!(changes(&[("[limits]", "[host]\nrate = \"1MiB\"\n[limits]")]).unwrap().keys, ["host"]);
    }

    #[test]
    fn the_rest_needs_a_restart_and_is_named() {
        let fixed = |replace: &[(&str, &str)]| changes(replace).unwrap_err();
        assert_eq!(fixed(&[("spin_us = 5\n", ""), ("connections = 4", "connections = 5")]), ["spin_us"]);
        let auto = [("[limits]", "[host]\nmode = \"auto\"\n[limits]")];
        assert_eq!(fixed(&auto), ["mode of the host, from \"fixed\" to \"auto\""]);
        assert_eq!(fixed(&[("/disks/two", "/disks/2")]), ["backing of VM two"]);
        assert_eq!(fixed(&[("\"two\"", "\"three\"")]), ["VM three"]);
    }
}
