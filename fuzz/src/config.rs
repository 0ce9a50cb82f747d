//! What must hold when the daemon's configuration is read from any text.

use std::collections::HashSet;
use std::path::Path;

use lode_server::ServerErrorKind;
use lode_server::config::{Config, MAX_LEVEL_BYTES, MAX_SHARDS, MAX_VMS};

/// Reads a configuration and says whether it was accepted. One that was keeps all limits; the refusal of another names a
/// line that there is.
pub fn check(data: &[u8]) -> bool {
    const NAME: &str = "fuzz.toml";
    let text = String::from_utf8_lossy(data);
    match Config::parse(&text, Path::new(NAME)) {
        Ok(config) => {
            check_config(&config);
            true
        }
        Err(error) => {
            assert_eq!(error.kind(), ServerErrorKind::Config);
            let message = error.to_string();
            let rest = message.strip_prefix(NAME).unwrap_or_else(|| panic!("{message}"));
            let line = rest.strip_prefix(':').and_then(|rest| rest.split(':').next()?.parse::<usize>().ok());
            let lines = 1 + text.bytes().filter(|&byte| byte == b'\n').count();
            assert!(line.is_none_or(|line| (1..=lines).contains(&line)), "{message}");
            false
        }
    }
}

fn check_config(config: &Config) {
    let is_plain = |name: &str| !name.is_empty() && name.len() <= 64 && !name.contains(['/', '\0']);
    assert!(is_plain(&config.name));
    assert!((1..=MAX_SHARDS as usize).contains(&config.shards));
    assert!(config.limits.connections > 0);
    assert!((1..=MAX_VMS).contains(&config.vms.len()));
    let names: HashSet<&str> = config.vms.iter().map(|vm| vm.name.as_str()).collect();
    assert_eq!(names.len(), config.vms.len(), "two VMs of one name");
    let sums = [
        config.vms.iter().map(|vm| vm.dram_bytes).sum::<u64>(),
        config.vms.iter().map(|vm| vm.ssd_bytes).sum(),
    ];
    for (all_bytes, sum_bytes) in config.host.bytes.iter().zip(sums) {
        assert!(all_bytes.is_none_or(|all| sum_bytes <= all), "VMs have more than there is");
    }
    for vm in &config.vms {
        assert!(is_plain(&vm.name) && !vm.listen.is_empty());
        for share_bytes in [vm.dram_bytes, vm.ssd_bytes, vm.read_ssd_bytes] {
            assert!(share_bytes <= MAX_LEVEL_BYTES && share_bytes.is_multiple_of(64 << 10));
        }
        let (shares, bounds) = ([vm.dram_bytes, vm.ssd_bytes], &vm.bounds);
        let limits = bounds.min_bytes.iter().zip(bounds.max_bytes.iter());
        for ((share_bytes, (min, max)), named) in shares.into_iter().zip(limits).zip(bounds.named.iter()) {
            let is_within = share_bytes >= *min && max.is_none_or(|max| share_bytes <= max);
            assert!(!named || is_within);
        }
        assert!(bounds.weight > 0.0 && vm.limits.connections > 0);
        assert!(vm.ssd_bytes == 0 || config.ssd.is_some());
        assert!(vm.read_ssd_bytes == 0 || config.read_ssd.is_some());
    }
}
