//! What becomes of settings in a sample of the blocks: each of every scheme counts less, means the same, or is refused.

use std::collections::BTreeSet;

use lode_policy::{SchemeInfo, SettingError, SettingInfo, SettingKind, all_schemes};

/// Numbers that mean the same for a sample: parts and multiples of what is scaled by itself, counts of one block or one request,
/// places on the disk, seconds; and those of sizing, which never takes place in one.
const SAME: &[&str] = &[
    // Per cent and multiples of a level or of another setting.
    "queue_percent",
    "window_percent",
    "dirty_thresh_pct",
    "headroom",
    "hir_percent",
    "stack_percent",
    "life_percent",
    "ghost_percent",
    "nhit_trigger_percent",
    "dirty_ratio_percent",
    "small_percent",
    "write_percent",
    "unit_parts",
    "evicted_percent",
    "in_percent",
    "out_percent",
    "protected_percent",
    "sample_factor",
    "write_budget",
    "window_requests_per_block",
    "steps",
    // Of one block, one set, one access or one request.
    "promote_after",
    "max_clean_ios_set",
    "fallow_clean_speed",
    "assoc",
    "queues",
    "nhit_threshold",
    "move_threshold",
    "worth_hits",
    "copy_rate",
    "samples",
    "write_price_us",
    "write_back_weight",
    "disk_random_us",
    "disk_sequential_us",
    "disk_write_us",
    "ssd_read_us",
    "ssd_write_us",
    "dram_us",
    // Blocks of a shadow, and what counts of means.
    "shadow_blocks",
    "switch_percent",
    "switch_cost_percent",
    "set_percent",
    "set_cost_percent",
    "ssd_write_weight_us",
    "latency_weight",
    "disk_weight",
    "disk_peak_weight",
    "disk_write_work_us",
    // Shares and factors.
    "ageing",
    "score_floor",
    "alpha",
    "factor",
    "write_threshold",
    "t_min",
    "t_max",
    "t_hdd",
    "t_read",
    // Places.
    "log_first_block",
    "log_blocks",
    // Seconds.
    "promotion_interval_s",
    "fallow_delay",
    "feed_interval_s",
    "wake_up_s",
    "staleness_s",
    "policy_interval_s",
    "sizing_interval_s",
    "disk_peak_interval_s",
    // Of sizing.
    "demand_half_life_turnovers",
    "min_blocks",
    "shrink_rate",
    "ppc_floor",
    "chunk_percent",
    // Blocks of a sample within the sample, which has as many.
    "sample_blocks",
    // Nothing without what is refused.
    "seq_threshold_blocks",
    "seq_streams",
    "tree_depth",
];

fn is_refused(info: &SchemeInfo, setting: &SettingInfo) -> bool {
    let values = match setting.kind {
        SettingKind::Integer { min, max } => vec![min.to_string(), max.to_string()],
        SettingKind::Choice(words) => words.iter().map(|&word| word.to_owned()).collect(),
        _ => Vec::new(),
    };
    values.iter().any(|value| {
        let mut settings = info.settings();
        settings.set(setting.key, value).expect("a value of its kind");
        matches!(info.check_sample(&settings), Err(SettingError::NotInSample { key, .. }) if key == setting.key)
    })
}

#[test]
fn every_number_counts_less_means_the_same_or_is_refused() {
    let mut unused: BTreeSet<&str> = SAME.iter().copied().collect();
    for info in all_schemes() {
        for setting in info.setting_infos() {
            let is_same = SAME.contains(&setting.key);
            unused.remove(setting.key);
            let is_scaled = match setting.kind {
                SettingKind::Scaled { .. } => true,
                SettingKind::Integer { .. } | SettingKind::Number { .. } | SettingKind::Budget { .. } => {
                    false
                }
                SettingKind::Choice(_) => continue,
            };
            let ways = [is_scaled, is_same, is_refused(info, setting)];
            let count = ways.iter().filter(|&&way| way).count();
            assert_eq!(count, 1, "{}: {} is scaled, the same, refused: {ways:?}", info.name, setting.key);
        }
    }
    assert!(unused.is_empty(), "no scheme has {unused:?}");
}

#[test]
fn what_lies_side_by_side_is_refused_and_the_rest_is_not() {
    let check = |scheme: &str, pairs: &[(&str, &str)]| {
        let info = SchemeInfo::find(scheme).unwrap();
        info.check_sample(&crate::driver::settings(scheme, pairs)).map_err(|error| error.to_string())
    };
    let refused = |scheme, pairs| check(scheme, pairs).unwrap_err();
    for (error, words) in [
        (refused("opencas-like", &[]), "sequential streams, of which a sample of the blocks has none"),
        (refused("opencas-like", &[("seq_policy", "always")]), "or set seq_policy=never"),
        (refused("flashcache", &[("skip_seq_blocks", "64")]), "or set skip_seq_blocks=0"),
        (refused("rpac", &[]), "without --sample, or set region_blocks=1"),
    ] {
        assert!(error.contains(words), "{error}");
    }
    assert_eq!(check("opencas-like", &[("seq_policy", "never")]), Ok(()));
    assert_eq!(check("rpac", &[("region_blocks", "1")]), Ok(()));
    let by_default: Vec<&str> =
        all_schemes().iter().map(|info| info.name).filter(|name| check(name, &[]).is_err()).collect();
    assert_eq!(by_default, ["auto", "benefit-density", "rpac", "rpac-prototype", "opencas-like"]);
}
