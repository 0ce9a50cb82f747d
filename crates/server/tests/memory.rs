//! What a configuration says of memory, without a device being opened.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::Path;

use lode_server::{Config, host_memory};

/// A host of so many VMs that divide 1 TiB of SSD and 1 GiB of DRAM.
fn host(folder: &Path, vms: u32) -> Config {
    let sparse = |name: &str, bytes| File::create(folder.join(name)).unwrap().set_len(bytes).unwrap();
    sparse("cache", 1 << 40);
    let at = folder.display();
    let mut text = format!(
        "name = \"host\"\nstate_dir = \"{at}\"\nssd = {{ path = \"{at}/cache\" }}\n\
         [host]\nmode = \"auto\"\ndram = \"1GiB\"\nssd = \"1000GiB\"\n"
    );
    for vm in 0..vms {
        sparse(&format!("disk{vm}"), 1 << 41);
        writeln!(
            text,
            "[[vm]]\nname = \"vm{vm}\"\nbacking = {{ path = \"{at}/disk{vm}\" }}\nlisten = [\"unix:{at}/vm{vm}.sock\"]"
        )
        .unwrap();
    }
    Config::parse(&text, Path::new("host.toml")).unwrap()
}

#[test]
fn vms_that_share_a_level_need_tables_for_it_once_at_a_start() {
    let folder = std::env::temp_dir().join(format!("lode-memory-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let one = host_memory(&host(&folder, 1)).unwrap();
    let many = host_memory(&host(&folder, 32)).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    let [of_one, of_many] = [&one, &many].map(|host| host.together.tables_bytes());
    assert_eq!(one.largest_tables_bytes, of_one, "a VM by itself begins with everything");
    // Each has some megabytes whatever its share is: for thirty-two, less than a twelfth of all.
    assert!(of_many < of_one + of_one / 12, "{of_many} beside {of_one}");
    assert!(many.largest_tables_bytes > 2 * of_many, "each of them may come to have much more");
    assert!(many.together_blocks <= one.together_blocks && one.together_blocks > 260_000_000);
}

/// Extents are as they suit what all pairs have together.
#[test]
fn a_cache_on_several_pairs_is_as_large_as_all_of_them() {
    let folder = std::env::temp_dir().join(format!("lode-memory-of-pairs-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let at = folder.display();
    for (name, gib) in [("half", 300), ("all", 600), ("a", 300), ("b", 310), ("c", 400), ("d", 300)] {
        File::create(folder.join(name)).unwrap().set_len(gib << 30).unwrap();
    }
    let tables_bytes = |ssd: &str| {
        let text = format!(
            "name = \"host\"\nssd = {{ {ssd} }}\n[[vm]]\nname = \"vm\"\nbacking = {{ path = \"{at}/disk\" }}\n\
             ssd = \"100GiB\"\nscheme = \"lru\"\nlisten = [\"unix:{at}/vm.sock\"]"
        );
        host_memory(&Config::parse(&text, Path::new("host.toml")).unwrap()).unwrap().together.tables_bytes()
    };
    let of_pairs = tables_bytes(&format!("pairs = [[\"{at}/a\", \"{at}/b\"], [\"{at}/c\", \"{at}/d\"]]"));
    let [half, all] = ["half", "all"].map(|name| tables_bytes(&format!("path = \"{at}/{name}\"")));
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(of_pairs, all);
    assert_ne!(of_pairs, half);
}
