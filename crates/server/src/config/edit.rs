//! Changing single keys of a VM in the text of a configuration, in which comments and everything else stay as they are. It must
//! not know what values mean: the whole of the new text is checked as any configuration is.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;

use lode_policy::nearest_name;
use toml_edit::{DocumentMut, InlineTable, Item, TableLike, Value};

use crate::new_file;

/// How a value is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Number,
    /// A number where it looks like one.
    Setting,
}

/// The keys of a VM that may change while it is served.
const KEYS: [(&str, Kind); 18] = [
    ("weight", Kind::Number),
    ("dram", Kind::Text),
    ("ssd", Kind::Text),
    ("min.dram", Kind::Text),
    ("min.ssd", Kind::Text),
    ("max.dram", Kind::Text),
    ("max.ssd", Kind::Text),
    ("scheme", Kind::Text),
    ("writeback", Kind::Text),
    ("writeback.dirty", Kind::Text),
    ("writeback.dirty_max", Kind::Text),
    ("writeback.age", Kind::Text),
    ("writeback.idle", Kind::Text),
    ("scrub", Kind::Text),
    ("limits.connections", Kind::Number),
    ("limits.connection_in_flight", Kind::Text),
    ("limits.vm_in_flight", Kind::Text),
    ("limits.slow_request_ms", Kind::Number),
];

/// Keys of a VM that cannot.
const FIXED: [&str; 9] = [
    "name",
    "backing",
    "read_ssd",
    "listen",
    "read_only",
    "backing.path",
    "backing.sidecar",
    "danger_zone",
    ACKNOWLEDGE_EARLY,
];
const ACKNOWLEDGE_EARLY: &str = "danger_zone.acknowledge_before_durable";
/// What a key of the scheme begins with.
const SETTINGS: &str = "settings.";

/// The text with other values of a VM's keys; without a value the key is taken out.
///
/// # Errors
/// In words: an unknown VM or key, with the one that was likely meant.
pub(super) fn edited(text: &str, vm: &str, keys: &BTreeMap<String, String>) -> Result<String, String> {
    let mut document: DocumentMut =
        text.parse().map_err(|error| format!("The configuration is not TOML: {error}"))?;
    let kinds: Vec<Kind> = keys.keys().map(|key| kind_of(key)).collect::<Result<_, _>>()?;
    let names: Vec<String> = vms(&mut document).iter().map(|vm| name(*vm).to_owned()).collect();
    let Some(at) = names.iter().position(|name| name == vm) else {
        return Err(no_vm(vm, &names));
    };
    let mut vms = vms(&mut document);
    let before = vms[at].get("scheme").and_then(Item::as_str).unwrap_or_default();
    if keys.get("scheme").is_some_and(|scheme| scheme != before) {
        // They are those of the scheme before.
        vms[at].remove("settings");
    }
    for ((key, value), kind) in keys.iter().zip(kinds) {
        set(vms[at], key, value, kind).map_err(|reason| format!("VM {vm}: {reason}"))?;
    }
    Ok(document.to_string())
}

/// What to say of a VM that there is not.
pub(super) fn no_vm(vm: &str, names: &[String]) -> String {
    let nearest = nearest_name(vm, names.iter().map(String::as_str));
    let meant = nearest.map(|name| format!(" (did you mean '{name}'?)")).unwrap_or_default();
    format!("There is no VM '{vm}' here{meant}; `lode vm list` lists those that there are")
}

fn kind_of(key: &str) -> Result<Kind, String> {
    if let Some((_, kind)) = KEYS.iter().find(|(known, _)| *known == key) {
        return Ok(*kind);
    }
    if key.strip_prefix(SETTINGS).is_some_and(|setting| !setting.is_empty()) {
        return Ok(Kind::Setting);
    }
    if FIXED.contains(&key) || key.starts_with("listen.") {
        return Err(format!(
            "Key '{key}' can only change with a restart: write it to the configuration file, and restart the service, which \
             guests with a reconnect delay outlast"
        ));
    }
    let known = || KEYS.iter().map(|(known, _)| *known);
    let meant = match nearest_name(key, known()) {
        Some(name) => format!("did you mean '{name}'?"),
        None => format!("write one of {}", known().collect::<Vec<_>>().join(", ")),
    };
    Err(format!("Key '{key}' is unknown; {meant}"))
}

/// The sections of the VMs, in either form.
pub(super) fn vms(document: &mut DocumentMut) -> Vec<&mut dyn TableLike> {
    match document.get_mut("vm") {
        Some(Item::ArrayOfTables(tables)) => {
            tables.iter_mut().map(|table| table as &mut dyn TableLike).collect()
        }
        Some(Item::Value(Value::Array(values))) => {
            let tables = values.iter_mut().filter_map(Value::as_inline_table_mut);
            tables.map(|table| table as &mut dyn TableLike).collect()
        }
        _ => Vec::new(),
    }
}

pub(super) fn name(vm: &dyn TableLike) -> &str {
    vm.get("name").and_then(Item::as_str).unwrap_or_default()
}

/// The keys of a VM that is to come, as its section of a configuration. `listen` may be there several times.
///
/// # Errors
/// In words: a key that is there twice, or a value that is no number where one is needed.
pub(crate) fn new_vm(
    vm: &str,
    keys: &[(String, String)],
) -> Result<serde_json::Map<String, serde_json::Value>, String> {
    let mut table = toml_edit::Table::new();
    table.insert("name", toml_edit::value(vm));
    let mut listens = toml_edit::Array::new();
    for (at, (key, text)) in keys.iter().enumerate() {
        if key == "listen" {
            listens.push(text.as_str());
            continue;
        }
        if key == "name" {
            return Err(format!("'name' is what comes first, here '{vm}'; leave the key out"));
        }
        if keys[..at].iter().any(|(before, _)| before == key) {
            return Err(format!("'{key}' is given twice; give it once"));
        }
        match (key.as_str(), text.parse::<bool>()) {
            ("backing", _) => set(&mut table, "backing.path", text, Kind::Text)?,
            (ACKNOWLEDGE_EARLY, Ok(is_so)) => {
                let mut danger = InlineTable::new();
                danger.insert("acknowledge_before_durable", is_so.into());
                table.insert("danger_zone", toml_edit::value(danger));
            }
            ("read_only", Ok(is_so)) => _ = table.insert(key, toml_edit::value(is_so)),
            _ => {
                let known = KEYS.iter().find(|(known, _)| known == key);
                let kind = known.map(|(_, kind)| *kind);
                let other = if key.starts_with(SETTINGS) { Kind::Setting } else { Kind::Text };
                set(&mut table, key, text, kind.unwrap_or(other))?;
            }
        }
    }
    if !listens.is_empty() {
        table.insert("listen", toml_edit::value(listens));
    }
    toml::from_str(&table.to_string()).map_err(|error| error.to_string())
}

fn set(vm: &mut dyn TableLike, key: &str, text: &str, kind: Kind) -> Result<(), String> {
    let Some((outer, inner)) = key.split_once('.') else { return put(vm, key, text, kind) };
    let is_text = vm.get(outer).is_some_and(Item::is_str);
    if text.is_empty() && (is_text || vm.get(outer).is_none()) {
        // There is no such key to be taken out, and what there is stays as it is.
        return Ok(());
    }
    if is_text && vm.get(outer).and_then(Item::as_str) == Some("scheme") {
        return Err(format!(
            "'{key}' says nothing while 'writeback' is \"scheme\"; set writeback=background as well"
        ));
    }
    if vm.get(outer).is_none() || is_text {
        vm.insert(outer, Item::Value(Value::InlineTable(InlineTable::new())));
    }
    let table = vm.get_mut(outer).and_then(Item::as_table_like_mut);
    let table = table.ok_or_else(|| format!("'{outer}' is not a table in the configuration"))?;
    put(table, inner, text, kind)?;
    if table.is_empty() {
        vm.remove(outer);
    }
    Ok(())
}

fn put(table: &mut dyn TableLike, key: &str, text: &str, kind: Kind) -> Result<(), String> {
    if text.is_empty() {
        table.remove(key);
        return Ok(());
    }
    let mut value = match kind {
        Kind::Text => Value::from(text),
        Kind::Number | Kind::Setting => match (text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(number), _) => Value::from(number),
            (_, Ok(number)) if number.is_finite() => Value::from(number),
            _ if kind == Kind::Setting => Value::from(text),
            _ => return Err(format!("'{key}' takes a number, not '{text}'")),
        },
    };
    match table.get_mut(key) {
        Some(item) => {
            // What stands before and behind it, such as a comment, stays.
            if let Some(old) = item.as_value() {
                *value.decor_mut() = old.decor().clone();
            }
            *item = Item::Value(value);
        }
        None => _ = table.insert(key, Item::Value(value)),
    }
    Ok(())
}

/// Replaces a file's text, durably and at once: whoever reads it, or finds it after a power cut, has the old text or the new.
/// Mode and owner stay, and a link goes on leading to it.
pub(super) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let path = path.canonicalize()?;
    let old = path.metadata()?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut partial = std::ffi::OsString::from(".partial-");
    partial.extend(path.file_name());
    let partial = folder.join(partial);
    new_file::replace(&path, &partial, 0o600, |file| {
        file.write_all(text.as_bytes())?;
        let new = file.metadata()?;
        if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
            fchown(&*file, Some(old.uid()), Some(old.gid()))?;
        }
        file.set_permissions(std::fs::Permissions::from_mode(old.mode() & 0o7777))
    })?;
    if let Err(error) = new_file::sync_folder(folder) {
        tracing::warn!("{} is written, but a power cut may undo that: {error}", path.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::new_file::failing::at_each_step;

    const TEXT: &str = r#"# The host in rack 7.
name = "a"
[[vm]] # first
name = "web"
backing = { path = "/disks/web" }   # slow
dram = "64MiB"  # as agreed
listen = ["unix:/run/web"]

[[vm]]
name = "db"
backing = { path = "/disks/db" }
writeback = { dirty = "5%" } # careful
listen = ["unix:/run/db"]
[vm.max]
dram = "1GiB"
# the end
"#;

    fn keys(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn set(vm: &str, pairs: &[(&str, &str)]) -> Result<String, String> {
        edited(TEXT, vm, &keys(pairs))
    }

    #[test]
    fn nothing_else_changes() {
        assert_eq!(set("web", &[]).unwrap(), TEXT);
        let text = set("web", &[("dram", "1GiB")]).unwrap();
        assert_eq!(text, TEXT.replace("\"64MiB\"  # as agreed", "\"1GiB\"  # as agreed"));
        let text = set("db", &[("max.dram", "2GiB"), ("writeback.dirty", "7%")]).unwrap();
        assert_eq!(text, TEXT.replace("1GiB", "2GiB").replace("5%", "7%"));
    }

    #[test]
    fn keys_come_and_go() {
        let text = set("web", &[("weight", "2"), ("min.dram", "1MiB"), ("writeback.age", "2min")]).unwrap();
        for line in ["weight = 2\n", "min = { dram = \"1MiB\" }\n", "writeback = { age = \"2min\" }\n"] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
        assert_eq!(text.matches("# ").count(), TEXT.matches("# ").count(), "{text}");
        let text =
            edited(&text, "web", &keys(&[("weight", ""), ("min.dram", ""), ("writeback.age", "")])).unwrap();
        assert_eq!(text, TEXT, "all of it is gone again");
        let text = set("db", &[("max.dram", "")]).unwrap();
        assert!(!text.contains("[vm.max]"), "{text}");
        let inline = "vm = [{ name = \"web\", dram = \"1MiB\" }]\n";
        let text = edited(inline, "web", &keys(&[("dram", "2MiB")])).unwrap();
        assert_eq!(text, inline.replace("1MiB", "2MiB"));
    }

    #[test]
    fn a_vm_is_made_of_keys() {
        let pairs = [
            ("backing", "/d"),
            ("ssd", "1GiB"),
            ("listen", "unix:/a"),
            ("weight", "2"),
            ("max.ssd", "2GiB"),
            ("settings.levels", "3"),
            ("read_only", "true"),
            ("listen", "unix:/b"),
        ];
        let pairs = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let made = serde_json::Value::from(new_vm("web", &pairs).unwrap());
        let expected = serde_json::json!({
            "name": "web", "backing": { "path": "/d" }, "ssd": "1GiB", "listen": ["unix:/a", "unix:/b"], "weight": 2,
            "max": { "ssd": "2GiB" }, "settings": { "levels": 3 }, "read_only": true,
        });
        assert_eq!(made, expected);
        let twice = ["1MiB", "2MiB"].map(|size| ("ssd".to_owned(), size.to_owned()));
        assert!(new_vm("web", &twice).unwrap_err().contains("twice"));
        let other = [("name".to_owned(), "other".to_owned())];
        let said = new_vm("web", &other).unwrap_err();
        assert!(said.contains("'name'") && said.contains("'web'"), "{said}");
    }

    #[test]
    fn write_back_may_be_a_word() {
        let word = set("db", &[("writeback", "scheme")]).unwrap();
        assert!(word.contains("writeback = \"scheme\" # careful"), "{word}");
        let said = edited(&word, "db", &keys(&[("writeback.age", "1min")])).unwrap_err();
        assert!(said.contains("writeback=background"), "{said}");
        let both =
            edited(&word, "db", &keys(&[("writeback", "background"), ("writeback.age", "1min")])).unwrap();
        assert!(both.contains("writeback = { age = \"1min\" }"), "{both}");
        // What is not there cannot be taken out, and taking it out changes nothing.
        for key in ["writeback.dirty", "max.ssd", "settings.levels"] {
            assert_eq!(edited(&word, "db", &keys(&[(key, "")])).unwrap(), word, "{key}");
        }
    }

    #[test]
    fn settings_are_those_of_the_scheme() {
        let npe = set("web", &[("settings.mode", "npe"), ("settings.levels", "3")]).unwrap();
        assert!(npe.contains("settings = { levels = 3, mode = \"npe\" }"), "{npe}");
        let same = edited(&npe, "web", &keys(&[("settings.mode", "")])).unwrap();
        assert!(same.contains("settings = { levels = 3") && !same.contains("mode"), "{same}");
        let other =
            edited(&npe, "web", &keys(&[("scheme", "lru"), ("settings.write_policy", "wt")])).unwrap();
        assert!(other.contains("scheme = \"lru\"\nsettings = { write_policy = \"wt\" }"), "{other}");
        assert_eq!(edited(&other, "web", &keys(&[("scheme", "")])).unwrap(), TEXT);
    }

    #[test]
    fn what_is_meant_is_said() {
        for (vm, key, value, said) in [
            ("wed", "dram", "1MiB", "did you mean 'web'?"),
            ("web", "wieght", "1", "did you mean 'weight'?"),
            ("web", "writeback.ages", "1min", "did you mean 'writeback.age'?"),
            ("web", "colour", "red", "write one of weight, dram"),
            ("web", "read_only", "true", "can only change with a restart"),
            ("web", "settings.", "1", "is unknown"),
            ("web", "weight", "heavy", "takes a number, not 'heavy'"),
            ("web", "weight", "inf", "takes a number"),
        ] {
            let found = set(vm, &[(key, value)]).expect_err(key);
            assert!(found.contains(said), "{key}: {found}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_replaced_is_as_before() {
        let folder = tempfile::TempDir::new().unwrap();
        let file = folder.path().join("a.toml");
        std::fs::write(&file, "old").unwrap();
        at_each_step(
            || replace(&file, "new"),
            |result, has_failed| {
                // That a power cut may undo it is said in the log alone.
                let text = std::fs::read_to_string(&file).unwrap();
                assert_eq!(text, if result.is_ok() { "new" } else { "old" });
                assert!(has_failed || result.is_ok());
                assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
                std::fs::write(&file, "old").unwrap();
            },
        );
    }

    #[test]
    fn a_file_is_replaced_with_its_mode_and_behind_its_link() {
        let folder = tempfile::TempDir::new().unwrap();
        let (file, link) = (folder.path().join("a.toml"), folder.path().join("link.toml"));
        std::fs::write(&file, "old").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        std::fs::write(folder.path().join(".partial-a.toml"), "left behind").unwrap();
        replace(&link, "new").unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o640);
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
        assert!(replace(&folder.path().join("none.toml"), "new").is_err());
    }
}
