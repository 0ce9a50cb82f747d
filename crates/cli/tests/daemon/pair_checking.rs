//! `lode check` of a pair of SSDs: each of them is looked at, and a repair writes what one lacks from the other one.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;

use serde_json::Value;

use crate::common::{Site, lode, lode_ok};
use crate::pairs::{Away, BLOCK, block, check_all, site, wait_for, write_all};

/// The exit code, what was found of the first target, and the same for people.
fn check(arguments: &[&str]) -> (i32, Value, String) {
    let output = lode(&[&["check", "--json"], arguments].concat());
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let reports: Value = serde_json::from_str(&said)
        .unwrap_or_else(|_| panic!("{arguments:?}: {said}{}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code().unwrap(), reports[0].clone(), said)
}

/// A pair with dirty blocks, which nobody serves.
fn written() -> Site {
    let site = site();
    let daemon = site.serve_up();
    write_all(&daemon, 1);
    daemon.stop();
    site
}

fn damage(site: &Site, name: &str, number: u64) {
    let bytes = fs::read(site.path(name)).unwrap();
    let wanted = block(number, 1);
    let at = bytes.chunks(BLOCK as usize).position(|chunk| chunk == wanted).expect("it is dirty there");
    let file = OpenOptions::new().write(true).open(site.path(name)).unwrap();
    file.write_all_at(&[0; 512], at as u64 * u64::from(BLOCK)).unwrap();
}

/// Spoils every page of metadata that begins so.
fn damage_pages(site: &Site, name: &str, magic: &[u8], most: usize) -> usize {
    let bytes = fs::read(site.path(name)).unwrap();
    let pages = bytes.chunks(BLOCK as usize).enumerate().filter(|(_, page)| page.starts_with(magic));
    let file = OpenOptions::new().write(true).open(site.path(name)).unwrap();
    let spoiled = pages
        .take(most)
        .map(|(at, _)| file.write_all_at(&[9; 64], at as u64 * u64::from(BLOCK) + 200).unwrap());
    spoiled.count()
}

fn dirty_counts(found: &Value, what: &str) -> [u64; 2] {
    [0, 1].map(|at| found["ssds"][at][what]["dirty_blocks"].as_u64().unwrap())
}

/// Other blocks on each of them, which a start would find on the other one.
#[test]
fn g9_a_check_looks_at_both_ssds_and_a_repair_mends_each_from_the_other() {
    let site = written();
    let (config, one, other) = (site.text("test.toml"), site.text("one.img"), site.text("other.img"));
    assert_eq!(check(&[&config]).0, 0);
    damage(&site, "one.img", 7);
    damage(&site, "other.img", 9);
    for targets in [vec![&config[..]], vec![&one, &other]] {
        let (code, found, said) = check(&targets);
        assert_eq!((code, dirty_counts(&found, "lacks")), (3, [1, 1]), "{said}");
        assert_eq!(found["verdict"], "mendable");
    }
    // One alone does not say that what it lacks is lost.
    let (code, found, said) = check(&[&other]);
    assert_eq!((code, &found["verdict"]), (4, &"incomplete".into()), "{said}");
    let text = String::from_utf8_lossy(&lode(&["check", &other]).stdout).into_owned();
    assert!(text.contains("the other SSD of the pair") && !text.contains("is lost"), "{text}");
    let (code, found, said) = check(&["--repair", &config]);
    assert_eq!(
        (code, dirty_counts(&found, "lacks"), dirty_counts(&found, "mended")),
        (0, [0, 0], [1, 1]),
        "{said}"
    );
    // Either of them has everything by itself.
    for gone in ["one.img", "other.img"] {
        let copies =
            ["one.img", "other.img"].map(|name| (site.path(name), fs::read(site.path(name)).unwrap()));
        let state = fs::read(site.path("state/test.state")).unwrap();
        fs::remove_file(site.path(gone)).unwrap();
        let daemon = site.serve_up();
        check_all(&daemon, 1);
        daemon.stop();
        copies.iter().for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
        fs::write(site.path("state/test.state"), state).unwrap();
    }
    // Without the configuration as well, and only what both lack is lost.
    damage(&site, "one.img", 11);
    damage(&site, "other.img", 12);
    let (code, found, said) = check(&["--repair", &one, &other]);
    assert_eq!((code, dirty_counts(&found, "mended")), (0, [1, 1]), "{said}");
    damage(&site, "one.img", 7);
    damage(&site, "other.img", 7);
    let (code, found, said) = check(&["--repair", &config]);
    assert_eq!((code, &found["verdict"]), (4, &"lossy".into()), "{said}");
    let damaged: u64 = (0..2).map(|at| found["volumes"][at]["damaged_dirty_blocks"].as_u64().unwrap()).sum();
    assert_eq!(damaged, 1, "{said}");
}

#[test]
fn g9_a_check_finds_metadata_that_one_ssd_lacks() {
    let site = written();
    let config = site.text("test.toml");
    for (name, at) in [("one.img", 0), ("other.img", 1)] {
        for (magic, key, most) in [
            (&b"LODEslot"[..], "table_pages", 2),
            (b"LODEsupr", "heads", 2),
            (b"LODEdirc", "heads", 1),
            (b"LODEjrnl", "journal_pages", usize::MAX),
        ] {
            assert!(damage_pages(&site, name, magic, most) > 0);
            let (code, found, said) = check(&["--metadata", &config]);
            assert_eq!((code, &found["verdict"]), (3, &"mendable".into()), "{said}");
            let lacks = |at: usize| found["ssds"][at]["lacks"][key].as_u64().unwrap();
            assert!(lacks(at) > 0 && lacks(1 - at) == 0, "{key}: {said}");
            let (code, found, said) =
                check(&["--repair", "--metadata", &site.text("one.img"), &site.text("other.img")]);
            assert!(code == 0 && found["ssds"][at]["mended"][key].as_u64() > Some(0), "{said}");
        }
    }
    // What takes a run of its own waits for the blocks that one of them alone has.
    damage(&site, "other.img", 9);
    assert_eq!(damage_pages(&site, "one.img", b"LODEpair", 1), 1);
    let (code, found, said) = check(&["--repair", "--metadata", &config]);
    assert_eq!((code, dirty_counts(&found, "mended")), (0, [0, 1]), "{said}");
    // A label is for the host to remember.
    for (name, at) in [("one.img", 0), ("other.img", 1)] {
        assert_eq!(damage_pages(&site, name, b"LODEpair", 1), 1);
        let (code, found, said) = check(&["--metadata", &config]);
        assert_eq!((code, &found["ssds"][at]["label_copies"]), (3, &1.into()), "{said}");
        let (code, _, said) =
            check(&["--repair", "--metadata", &site.text("one.img"), &site.text("other.img")]);
        assert!(code == 3 && said.contains("lode check --repair CONFIG.toml"), "{said}");
        assert_eq!(check(&["--repair", &config]).0, 0);
    }
    let daemon = site.serve_up();
    check_all(&daemon, 1);
    daemon.stop();
}

/// A repair leaves nobody behind who may have what is damaged elsewhere.
#[test]
fn g9_a_check_with_an_ssd_missing_says_so_and_a_repair_waits_for_it() {
    let site = written();
    let config = site.text("test.toml");
    let away = Away::take(&site, "other.img");
    let (code, found, said) = check(&[&config]);
    assert_eq!(
        (code, &found["verdict"], &found["ssds"][1]["is_missed"]),
        (3, &"mendable".into(), &true.into()),
        "{said}"
    );
    let text = String::from_utf8_lossy(&lode(&["check", &config]).stdout).into_owned();
    assert!(
        text.contains("other.img") && text.contains("lode device add") && !text.contains("Sound"),
        "{text}"
    );
    // What is damaged here the other one has. There is something to mend as well that it is not needed for.
    damage(&site, "one.img", 7);
    assert_eq!(damage_pages(&site, "one.img", b"LODEslot", 1), 1);
    let before = fs::read(site.path("one.img")).unwrap();
    for arguments in [vec![&config[..]], vec!["--repair", &config]] {
        let (code, found, said) = check(&arguments);
        assert_eq!((code, &found["verdict"]), (4, &"incomplete".into()), "{said}");
    }
    assert!(fs::read(site.path("one.img")).unwrap() == before, "nothing was written");
    away.put_back();
    let (code, found, said) = check(&["--repair", &config]);
    assert_eq!((code, dirty_counts(&found, "mended")), (0, [1, 0]), "{said}");
    assert_eq!(found["ssds"][0]["mended"]["table_pages"], 1, "{said}");
    // One that labels say is out is no reason to wait, and its blocks are not believed.
    let daemon = site.serve_up();
    check_all(&daemon, 1);
    lode_ok(&["device", "remove", &config, &site.text("other.img")]);
    wait_for(&site, "one.img", "in-sync");
    daemon.stop();
    let (code, found, said) = check(&[&config]);
    assert_eq!(
        found["ssds"].as_array().unwrap().iter().filter(|ssd| ssd["is_missed"] == true).count(),
        0,
        "{said}"
    );
    assert!([0, 3].contains(&code), "{said}");
    damage_pages(&site, "one.img", b"LODEslot", 1);
    let (_, found, said) = check(&["--repair", &config]);
    let mended: u64 = (0..2).filter_map(|at| found["volumes"][at]["mended"]["table_pages"].as_u64()).sum();
    assert_eq!(mended, 1, "{said}");
    let daemon = site.serve_up();
    check_all(&daemon, 1);
    daemon.stop();
}
