//! What is dangerous about a configuration, said in a line each: at a start, and when it is only checked. It must not know how
//! anything is served.

use lode_types::Level;
use tracing::warn;

use crate::config::{Config, VmConfig};

/// Values of `write_policy` with which a scheme keeps nothing dirty.
const NOTHING_DIRTY: [&str; 4] = ["wt", "wa", "ro", "pt"];

/// Whether dirty blocks of a VM may be on the cache SSD alone.
fn keeps_single_copies(config: &Config, vm: &VmConfig) -> bool {
    let scheme = vm.scheme();
    // A scheme that uses the read SSD has them on a second device.
    let mirrors = scheme.levels.contains(&Level::ReadSsd);
    let has_ssd = config.ssd.as_ref().is_some_and(|ssd| ssd.pairs.is_empty())
        && vm.ssd_bytes.max(config.reach_bytes(vm, Level::Ssd)) > 0;
    let has_policy = scheme.setting_infos().any(|info| info.key == "write_policy");
    let is_clean = has_policy && NOTHING_DIRTY.contains(&vm.settings.text("write_policy"));
    has_ssd && !mirrors && !is_clean && !vm.read_only
}

/// What an operator should know, as lines for people; what `danger_zone` says to be known is left out but for what it does.
pub fn warnings(config: &Config) -> Vec<String> {
    let names = |is_so: &dyn Fn(&VmConfig) -> bool| {
        let names: Vec<&str> = config.vms.iter().filter(|vm| is_so(vm)).map(|vm| vm.name.as_str()).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    let mut lines = Vec::new();
    if let Some(names) = names(&|vm| keeps_single_copies(config, vm))
        && !config.danger.single_copy_dirty
    {
        lines.push(format!(
            "Blocks newer than the backing disks are on one SSD alone: should it die, what was not written back is lost ({names}). \
             `writeback` keeps them few, pairs of SSDs (`ssd.mirror`, `ssd.pairs`) and schemes tica-… keep two copies; single_copy_dirty = true in [danger_zone] says that this is \
             known"
        ));
    }
    if let Some(names) = names(&|vm| vm.acknowledges_early) {
        lines.push(format!(
            "FLUSH and FUA are acknowledged before anything is durable: a power cut loses or tears what these guests take for safe \
             ({names}; danger_zone.acknowledge_before_durable)"
        ));
    }
    if !config.danger.lost_caches.is_empty() {
        let caches: Vec<String> = config.danger.lost_caches.iter().map(ToString::to_string).collect();
        lines.push(format!(
            "What these caches hold of a disk is given up when it is served here: {} (danger_zone.lost_caches); take them out again \
             once their disks are served",
            caches.join(", ")
        ));
    }
    lines
}

/// Tells the log.
pub(crate) fn warn_of(config: &Config) {
    warnings(config).into_iter().for_each(|line| warn!("{line}"));
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn lines(top: &str, vm: &str) -> Vec<String> {
        let text = format!(
            "name = \"a\"\n[ssd]\npath = \"/ssd\"\n{top}\n[[vm]]\nname = \"web\"\nbacking = {{ path = \"/d\" }}\n\
             listen = [\"unix:/a\"]\n{vm}\n"
        );
        warnings(&Config::parse(&text, Path::new("a.toml")).unwrap())
    }

    #[test]
    fn single_copies_are_warned_of_unless_that_is_known() {
        let wb = "scheme = \"lru\"\nssd = \"1GiB\"\nsettings = { write_policy = \"wb\" }";
        let said = lines("", wb);
        assert!(
            matches!(&said[..], [line] if line.contains("one SSD alone") && line.contains("(web)")),
            "{said:?}"
        );
        assert_eq!(lines("[danger_zone]\nsingle_copy_dirty = true", wb), [""; 0]);
        let none = [
            "scheme = \"lru\"\nssd = \"1GiB\"\nsettings = { write_policy = \"wt\" }".to_owned(),
            format!("{wb}\nread_only = true"),
            "scheme = \"lru\"".to_owned(),
        ];
        for vm in none {
            assert_eq!(lines("", &vm), [""; 0], "{vm}");
        }
        assert_eq!(lines("", "scheme = \"etica\"\ndram = \"1GiB\"\nssd = \"1GiB\"").len(), 1);
        let pairs = format!(
            "name = \"a\"\n[ssd]\npairs = [[\"/a\", \"/b\"], [\"/c\", \"/d\"]]\n[[vm]]\nname = \"web\"\n\
             backing = {{ path = \"/d\" }}\nlisten = [\"unix:/a\"]\n{wb}\n"
        );
        assert_eq!(warnings(&Config::parse(&pairs, Path::new("a.toml")).unwrap()), [""; 0], "of each pair");
        let pair = "[read_ssd]\npath = \"/r\"";
        let tica = "scheme = \"tica-adaptive\"\ndram = \"1GiB\"\nssd = \"1GiB\"\nread_ssd = \"1GiB\"";
        assert_eq!(lines(pair, tica), [""; 0], "on two devices");
    }

    #[test]
    fn what_is_dangerous_and_known_is_told_all_the_same_where_it_loses_data() {
        let said = lines("", "scheme = \"lru\"\ndanger_zone = { acknowledge_before_durable = true }");
        assert!(matches!(&said[..], [line] if line.contains("before anything is durable")), "{said:?}");
        let uuid = "00112233-4455-4677-8899-aabbccddeeff";
        let said = lines(&format!("[danger_zone]\nlost_caches = [\"{uuid}\"]"), "scheme = \"lru\"");
        assert!(matches!(&said[..], [line] if line.contains(uuid)), "{said:?}");
    }
}
