//! Settings of a made-up scheme: what is taken, what is refused, and what a sample makes of them.

use lode_policy::{SchemeInfo, SettingError, SettingInfo, Settings, UNDIVIDED};

static TABLE: &[SettingInfo] = &[
    SettingInfo::number("ageing", "0.9", 0.0, 1.0),
    SettingInfo::choice("mode", "a", &["a", "b"]),
    SettingInfo::scaled("interval", "1000", 2, 5000),
    SettingInfo::integer("blocks", "1000", 2, 5000),
];

#[test]
fn values_are_checked_when_set() {
    let mut settings = Settings::new("x", &[TABLE]);
    assert_eq!(settings.number("ageing"), 0.9);
    settings.set_pair("ageing=0.5").unwrap();
    assert_eq!(settings.number("ageing"), 0.5);
    let error = Settings::new("x", &[TABLE]).set_pair("ageing=1.5").unwrap_err();
    assert_eq!(error.to_string(), "Setting 'ageing' cannot be '1.5': it takes a number from 0 to 1");
    for nonsense in ["ageing=NaN", "ageing=", "mode=c", "mode"] {
        assert!(Settings::new("x", &[TABLE]).set_pair(nonsense).is_err(), "{nonsense}");
    }
}

#[test]
fn a_list_has_one_value_for_a_setting() {
    let mut settings = Settings::new("x", &[TABLE]);
    settings.set_pair("mode=a").unwrap();
    let error = settings.set_pair(" mode = b").unwrap_err().to_string();
    assert_eq!(error, "Setting 'mode' is given twice, as 'a' and 'b'; give it once");
    assert_eq!(settings.text("mode"), "a");
    settings.set("mode", "b").unwrap();
    assert_eq!(settings.text("mode"), "b");
}

#[test]
fn what_is_scaled_shrinks_with_a_sample_and_nothing_else_does() {
    let settings = Settings::new("x", &[TABLE]);
    for (rate, expected) in [(1.0, 1000), (0.1, 100), (0.0256, 26), (1e-9, 2)] {
        let scaled = settings.for_sample(rate);
        assert_eq!((scaled.integer("interval"), scaled.integer("blocks")), (expected, 1000));
    }
    assert!(Settings::new("x", &[TABLE]).set("interval", "5001").is_err());
}

#[test]
fn sets_are_left_out_unless_they_were_asked_for() {
    static SETS: &[SettingInfo] = &[SettingInfo::integer(UNDIVIDED.0, "512", 0, 1 << 20)];
    let settings = Settings::new("x", &[SETS]);
    assert_eq!(settings.assoc(), Some(512));
    let without = settings.clone().without_sets();
    assert_eq!(without.assoc(), Some(0));
    let mut given = settings;
    given.set(UNDIVIDED.0, "512").unwrap();
    assert_eq!(given.without_sets().assoc(), Some(512));
    assert_eq!(Settings::new("x", &[TABLE]).without_sets().assoc(), None);
}

#[test]
fn a_misspelt_key_names_the_nearest() {
    let mut settings = Settings::new("x", &[TABLE]);
    let error = settings.set_pair("aging=1").unwrap_err().to_string();
    assert!(error.contains("did you mean 'ageing'?"), "{error}");
    let error = settings.set_pair("zzzz=1").unwrap_err().to_string();
    assert!(!error.contains("did you mean"), "{error}");
}

#[test]
fn the_name_that_was_meant_is_found() {
    for (asked, meant) in [
        ("tica", Some("tica-ef")),
        ("TICA", Some("tica-ef")),
        ("l2arc", Some("l2arc-like")),
        ("UCache", Some("ucache-like")),
        ("etika", Some("etica")),
        ("lr", Some("lru")),
        ("la", Some("larc")),
        ("la_", Some("larc")),
        ("lrc", Some("arc")),
        ("mru", Some("lru")),
        ("scave", Some("s-cave-like")),
        ("fastcache", Some("fast-cache-like")),
        ("flash-cache", Some("flashcache")),
        ("open-cas", Some("opencas-like")),
        ("srac", Some("s-rac-like")),
        ("tica_ef", Some("tica-ef")),
        ("-", None),
        ("", None),
        ("zzzzzz", None),
        // As near to some short name as any two letters are.
        ("l", None),
        ("io", None),
        ("xq", None),
        ("foo", None),
        ("random", None),
    ] {
        let error = SchemeInfo::find(asked).expect_err("no scheme is called so");
        let SettingError::UnknownScheme { nearest, .. } = error else { panic!("{error}") };
        assert_eq!(nearest, meant, "{asked}");
    }
}

#[test]
fn a_setting_of_another_scheme_is_told_whose_it_is() {
    let refusal = |scheme: &str, pair: &str| {
        let error = SchemeInfo::find(scheme).unwrap().settings().set_pair(pair).unwrap_err();
        error.to_string()
    };
    assert_eq!(
        refusal("auto", "hir_percent=2"),
        "Scheme 'auto' has no setting 'hir_percent'; 'lirs' has one; `lode schemes` lists them"
    );
    assert!(refusal("auto", "assoc=8").contains("; 'etica', 'lru', 'fifo' and others have one; "));
    assert!(!refusal("auto", "nonsense=8").contains(" one; "));
}

/// What passes in time is refused where there is none, with what may be set instead.
#[test]
fn what_needs_times_is_refused_without() {
    let check = |pairs: &[(&str, &str)]| {
        let info = SchemeInfo::find("auto").unwrap();
        info.check_without_times(&crate::driver::settings("auto", pairs)).map_err(|error| error.to_string())
    };
    assert_eq!(check(&[]), Ok(()));
    assert_eq!(check(&[("write_budget", "10"), ("disk_peak_weight", "0.0")]), Ok(()));
    let error = check(&[("write_budget", "1GiB/day")]).unwrap_err();
    let budget = "Setting write_budget=1GiB/day counts what is written in a day, and these requests have no times; set write_budget \
                  to blocks for each hundred block accesses, such as write_budget=10";
    assert_eq!(error, budget);
    let error = check(&[("disk_peak_weight", "2")]).unwrap_err();
    assert!(
        error.ends_with(
            "busy disks are over time, and these requests have no times; set disk_peak_weight to 0"
        ),
        "{error}"
    );
}
