//! VMs that come to the text of a configuration, go from it or get other names there, while comments and everything else stay as
//! they are. It must not know what their keys mean: the whole of the new text is checked as any configuration is.

use std::path::Path;

use toml::{Table, Value as Known};
use toml_edit::{Array, DocumentMut, InlineTable, Item, TableLike, Value};

use super::edit::{name, no_vm, vms};

fn parse(text: &str) -> Result<DocumentMut, String> {
    text.parse().map_err(|error| format!("The configuration is not TOML: {error}"))
}

fn position(document: &mut DocumentMut, vm: &str) -> Result<usize, String> {
    let names: Vec<String> = vms(document).iter().map(|one| name(*one).to_owned()).collect();
    names.iter().position(|name| name == vm).ok_or_else(|| no_vm(vm, &names))
}

/// The text without a VM.
///
/// # Errors
/// When there is no such VM.
pub(super) fn without(text: &str, vm: &str) -> Result<String, String> {
    let mut document = parse(text)?;
    let at = position(&mut document, vm)?;
    match document.get_mut("vm") {
        Some(Item::ArrayOfTables(tables)) => _ = tables.remove(at),
        Some(Item::Value(Value::Array(values))) => _ = values.remove(at),
        _ => {}
    }
    Ok(document.to_string())
}

/// The text with another name of a VM.
///
/// # Errors
/// When there is no such VM.
pub(super) fn renamed(text: &str, from: &str, to: &str) -> Result<String, String> {
    let mut document = parse(text)?;
    let at = position(&mut document, from)?;
    let vm: &mut dyn TableLike = vms(&mut document).swap_remove(at);
    if let Some(value) = vm.get_mut("name").and_then(Item::as_value_mut) {
        let decor = value.decor().clone();
        *value = Value::from(to);
        *value.decor_mut() = decor;
    }
    Ok(document.to_string())
}

/// The text with another device in the place of a cache SSD, or without one as the mirror of the only one.
///
/// # Errors
/// When none is there, or a mirror is that is to come.
pub(super) fn with_ssd(text: &str, from: Option<&Path>, to: &Path) -> Result<String, String> {
    let mut document = parse(text)?;
    let ssd = document.get_mut("ssd").and_then(Item::as_table_like_mut);
    let ssd = ssd.ok_or("The configuration has no [ssd] section")?;
    let mut named = ssds(ssd);
    let at = |path: &Path| named.iter().position(|value| value.as_str().map(Path::new) == Some(path));
    if from.and_then(at).is_none() && at(to).is_some() {
        // As an attempt before has left it, which came to nothing later.
        return Ok(document.to_string());
    }
    let new = Value::from(to.to_str().ok_or("The path is not UTF-8")?);
    match from {
        Some(from) => {
            let from_at = at(from).ok_or_else(|| format!("No key of [ssd] names {}", from.display()))?;
            let value = named.swap_remove(from_at);
            let decor = value.decor().clone();
            *value = new;
            *value.decor_mut() = decor;
        }
        None if ssd.contains_key("mirror") => {
            return Err("[ssd] has another `mirror` already; take that out, or add that one".to_owned());
        }
        None => _ = ssd.insert("mirror", Item::Value(new)),
    }
    Ok(document.to_string())
}

/// The values that name cache SSDs.
fn ssds(ssd: &mut dyn TableLike) -> Vec<&mut Value> {
    let mut named = Vec::new();
    for (key, item) in ssd.iter_mut() {
        match (key.get(), item) {
            ("path" | "mirror", Item::Value(value)) => named.push(value),
            ("pairs", Item::Value(Value::Array(pairs))) => {
                named.extend(pairs.iter_mut().filter_map(Value::as_array_mut).flat_map(Array::iter_mut));
            }
            _ => {}
        }
    }
    named
}

/// The text with a VM more at its end, which has these keys.
///
/// # Errors
/// When there is something in it that TOML cannot say.
pub(super) fn with(text: &str, vm: &Table) -> Result<String, String> {
    let mut document = parse(text)?;
    if let Some(Item::Value(Value::Array(values))) = document.get_mut("vm") {
        values.push(Value::InlineTable(inline(vm)?));
        return Ok(document.to_string());
    }
    let mut section = String::from("[[vm]]\n");
    for (key, value) in in_order(vm) {
        let line: DocumentMut = DocumentMut::from(toml_edit::Table::from_iter([(key, written(value)?)]));
        section += &line.to_string();
    }
    Ok(format!("{}\n\n{section}", text.trim_end()))
}

/// First who it is and what is behind it, as people write it.
fn in_order(vm: &Table) -> impl Iterator<Item = (&String, &Known)> {
    const FIRST: [&str; 2] = ["name", "backing"];
    let is_first = |key: &String| FIRST.contains(&key.as_str());
    let first = FIRST.into_iter().filter_map(|key| vm.get_key_value(key));
    first.chain(vm.iter().filter(move |(key, _)| !is_first(key)))
}

fn inline(table: &Table) -> Result<InlineTable, String> {
    in_order(table).map(|(key, value)| Ok((key.clone(), written(value)?))).collect()
}

fn written(value: &Known) -> Result<Value, String> {
    Ok(match value {
        Known::String(text) => Value::from(text.as_str()),
        Known::Integer(number) => Value::from(*number),
        Known::Float(number) => Value::from(*number),
        Known::Boolean(is_so) => Value::from(*is_so),
        Known::Table(table) => Value::InlineTable(inline(table)?),
        Known::Array(values) => Value::Array(values.iter().map(written).collect::<Result<_, _>>()?),
        Known::Datetime(time) => return Err(format!("No key of a VM takes a time, as {time}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# The host.\nname = \"a\"\n\n[[vm]]\nname = \"web\" # first\n[vm.max]\nssd = \"1GiB\"\n\n# The other.\n\
                        [[vm]]\nname = \"db\"\n";

    #[test]
    fn vms_come_and_go_and_nothing_else_changes() {
        let vm: Table = toml::from_str(
            "ssd = \"1MiB\"\nname = \"new\"\nmax = { ssd = \"2MiB\" }\nlisten = [\"unix:/a\"]",
        )
        .unwrap();
        let text = with(TEXT, &vm).unwrap();
        let section =
            "[[vm]]\nname = \"new\"\nlisten = [\"unix:/a\"]\nmax = { ssd = \"2MiB\" }\nssd = \"1MiB\"\n";
        assert_eq!(text, format!("{TEXT}\n{section}"));
        assert_eq!(without(&text, "new").unwrap().trim_end(), TEXT.trim_end());
        let text = without(TEXT, "web").unwrap();
        assert!(text.contains("# The host.") && text.contains("# The other."), "{text}");
        assert!(!text.contains("web") && !text.contains("1GiB"), "{text}");
        assert!(without(TEXT, "wed").unwrap_err().contains("did you mean 'web'?"));
        let inline = "vm = [{ name = \"web\" }]\n";
        let text = with(inline, &vm).unwrap();
        assert!(text.contains("{ name = \"web\" }, { name = \"new\""), "{text}");
        assert_eq!(without(&text, "new").unwrap(), inline);
    }

    #[test]
    fn a_vm_gets_another_name() {
        assert_eq!(renamed(TEXT, "web", "www").unwrap(), TEXT.replace("\"web\"", "\"www\""));
        assert!(renamed(TEXT, "www", "web").is_err());
    }
}
