//! The clients that people use.

use std::process::Command;

use crate::common::{MIB, Site, has_tool, pattern};

/// Runs a tool, bounded in time, which must succeed.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new("timeout").arg("60").arg(program).args(arguments).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(output.status.success(), "{program} {arguments:?}: {text}");
    text
}

#[test]
fn fio_verifies_its_checksums() {
    if !has_tool("fio") {
        return;
    }
    let site = Site::new();
    let daemon = site.serve();
    drop((daemon.client("vm1"), daemon.client("vm2")));
    // Both at once, and more than their caches hold.
    std::thread::scope(|scope| {
        for (vm, size) in [("vm1", "--bs=4k"), ("vm2", "--bsrange=512-256k")] {
            let uri = format!("--uri={}", site.uri(vm));
            scope.spawn(move || {
                let job = ["--name=v", "--ioengine=nbd", &uri, "--rw=randwrite", size, "--iodepth=32"];
                let check = ["--size=60M", "--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0"];
                let text = run("/usr/bin/fio", &[&job[..], &check[..]].concat());
                assert!(text.contains("err= 0"), "{text}");
            });
        }
    });
    daemon.stop();
}

#[test]
fn qemu_io_patterns_come_back() {
    if !has_tool("qemu-io") {
        return;
    }
    let site = Site::new();
    let daemon = site.serve();
    drop(daemon.client("vm1"));
    let commands = [
        "write -P 0xab 0 1M",
        "write -P 0x11 4608 512",
        "read -P 0x11 4608 512",
        "read -P 0xab 5120 512",
        "write -f -P 0x22 3M 33M",
        "read -P 0x22 3M 33M",
        "discard 1M 1M",
        "write -z 8M 1M",
        "read -P 0 8M 1M",
        "flush",
        "aio_write -P 0x33 40M 2M",
        "aio_write -P 0x44 42M 2M",
        "aio_flush",
        "read -P 0x33 40M 2M",
        "read -P 0x44 42M 2M",
    ];
    let uri = site.uri("vm1");
    let mut arguments = vec!["-f", "raw"];
    commands.iter().for_each(|command| arguments.extend(["-c", command]));
    arguments.push(&uri);
    let text = run("/usr/bin/qemu-io", &arguments);
    assert!(!text.contains("failed"), "{text}");
    daemon.stop();
}

#[test]
fn whole_disks_are_copied_both_ways() {
    if !has_tool("nbdcopy") || !has_tool("qemu-img") {
        return;
    }
    let site = Site::new();
    let daemon = site.serve();
    drop(daemon.client("vm1"));
    let (source, copy) = (site.text("source.img"), site.text("copy.img"));
    std::fs::write(&source, pattern(0, 42, 64 * MIB as usize)).unwrap();
    std::fs::File::create(&copy).unwrap().set_len(64 * MIB).unwrap();
    run("/usr/bin/nbdcopy", &["--flush", &source, &site.uri("vm1")]);
    run("/usr/bin/nbdcopy", &[&site.uri("vm1"), &copy]);
    run("/usr/bin/qemu-img", &["compare", "-f", "raw", "-F", "raw", &copy, &source]);
    run("/usr/bin/qemu-img", &["compare", "-f", "raw", "-F", "raw", &source, &site.uri("vm1")]);
    daemon.stop();
}
