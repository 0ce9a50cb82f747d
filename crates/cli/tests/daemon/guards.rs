//! What the daemon refuses to format or to serve.

use std::fs::{self, File};
use std::process::Command;

use crate::common::{MIB, Site, has_tool, lode_fails, lode_ok};

#[test]
fn format_spares_what_it_recognises() {
    let site = Site::new();
    let ssd = site.text("ssd.img");
    let before = fs::read(&ssd).unwrap();
    let said = lode_fails(&["format", &ssd]);
    assert!(said.contains("holds a Lodestore cache") && said.contains("--force"), "{said}");
    assert!(fs::read(&ssd).unwrap() == before, "a refusal changes nothing");
    lode_ok(&["format", &ssd, "--force"]);
    assert!(fs::read(&ssd).unwrap() != before);
    if !has_tool("mkfs.ext4") {
        return;
    }
    let ext4 = site.text("ext4.img");
    File::create(&ext4).unwrap().set_len(64 * MIB).unwrap();
    assert!(Command::new("/sbin/mkfs.ext4").args(["-q", "-F", &ext4]).status().unwrap().success());
    let before = fs::read(&ext4).unwrap();
    let said = lode_fails(&["format", &ext4]);
    assert!(said.contains("ext4"), "{said}");
    assert!(fs::read(&ext4).unwrap() == before, "a refusal changes nothing");
}

#[test]
fn a_device_in_use_is_neither_formatted_nor_served_twice() {
    let site = Site::new();
    let daemon = site.serve();
    drop(daemon.client("vm1"));
    let said = lode_fails(&["format", &site.text("ssd.img"), "--force"]);
    assert!(said.contains("locked"), "{said}");
    let said = site.serve_fails();
    assert!(said.contains("test.sock"), "{said}");
    // The first one did not notice.
    daemon.client("vm1").write(0, &[1; 512]);
    daemon.stop();
}

#[test]
fn another_cache_is_not_served_in_place_of_the_known_one() {
    let site = Site::new();
    site.serve_once();
    fs::rename(site.path("ssd.img"), site.path("old.img")).unwrap();
    lode_ok(&["format", &site.text("ssd.img"), "--create", "128MiB"]);
    let said = site.serve_fails();
    assert!(said.contains("last served cache") && said.contains("state"), "{said}");
    fs::remove_file(site.path("state/test.state")).unwrap();
    site.serve_once();
}

#[test]
fn the_configured_identity_must_be_found() {
    let site = Site::new();
    let path = site.path("test.toml");
    let text = fs::read_to_string(&path).unwrap();
    let uuid = "uuid = \"00112233-4455-4677-8899-aabbccddeeff\"\n\n[[vm]]\nname = \"vm1\"";
    fs::write(&path, text.replacen("[[vm]]\nname = \"vm1\"", uuid, 1)).unwrap();
    let said = site.serve_fails();
    assert!(said.contains("00112233-4455-4677-8899-aabbccddeeff") && said.contains("uuid"), "{said}");
}

#[test]
fn an_old_copy_of_the_cache_is_not_served() {
    let site = Site::new();
    site.serve_once();
    fs::copy(site.path("ssd.img"), site.path("copy.img")).unwrap();
    site.serve_once();
    fs::rename(site.path("copy.img"), site.path("ssd.img")).unwrap();
    let said = site.serve_fails();
    assert!(said.contains("old copy") && said.contains("epoch"), "{said}");
}

#[test]
fn a_device_of_another_size_is_not_served() {
    let site = Site::new();
    site.serve_once();
    File::options().write(true).open(site.path("ssd.img")).unwrap().set_len(256 * MIB).unwrap();
    let said = site.serve_fails();
    assert!(said.contains("was made for"), "{said}");
    File::options().write(true).open(site.path("ssd.img")).unwrap().set_len(128 * MIB).unwrap();
    site.serve_once();
}

#[test]
fn a_smaller_backing_disk_is_not_served() {
    let site = Site::new();
    site.serve_once();
    File::options().write(true).open(site.path("vm1.img")).unwrap().set_len(32 * MIB).unwrap();
    let said = site.serve_fails();
    assert!(said.contains("vm1") && said.contains("another disk"), "{said}");
}

#[test]
fn a_wrong_configuration_is_refused_with_its_line() {
    let site = Site::new();
    site.configure("[limits]\nconections = 3");
    let said = site.serve_fails();
    assert!(said.contains("test.toml:") && said.contains("conections"), "{said}");
    assert!(!lode_fails(&["serve", "--check", &site.text("test.toml")]).is_empty());
    site.configure("");
    lode_ok(&["serve", "--check", &site.text("test.toml")]);
}

impl Site {
    /// Serves, writes a little, and stops cleanly.
    fn serve_once(&self) {
        let daemon = self.serve();
        daemon.client("vm1").write(0, &[1; 4096]);
        daemon.stop();
    }
}
