//! Guesses which process holds the lock on a file, for an error message. Never decides anything.

use rustix::fs::{major, minor};

/// `process 1234 (lode)`, or a general phrase when the lock table does not say.
pub(crate) fn lock_holder(stat: &rustix::fs::Stat) -> String {
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    let Some(pid) = pid_in(&locks, major(stat.st_dev), minor(stat.st_dev), stat.st_ino) else {
        return "another process, perhaps in another container or on another host".to_string();
    };
    match std::fs::read_to_string(format!("/proc/{pid}/comm")) {
        Ok(name) => format!("process {pid} ({})", name.trim_end()),
        Err(_) => format!("process {pid}"),
    }
}

/// Finds `1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF` by device and inode.
fn pid_in(locks: &str, major: u32, minor: u32, inode: u64) -> Option<u32> {
    let wanted = format!("{major:02x}:{minor:02x}:{inode}");
    locks.lines().find_map(|line| {
        let mut fields = line.split_whitespace().skip_while(|field| *field != "FLOCK");
        let (pid, file) = (fields.nth(3)?, fields.next()?);
        if file == wanted { pid.parse().ok() } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_lock_table() {
        let table = "1: POSIX  ADVISORY  WRITE 77 fe:00:12 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 78 fe:00:13 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 79 fe:00:12 0 EOF\n";
        assert_eq!(pid_in(table, 0xfe, 0, 12), Some(79));
        assert_eq!(pid_in(table, 0xfe, 0, 13), Some(78));
        assert_eq!(pid_in(table, 0xfe, 1, 12), None);
        assert_eq!(pid_in("FLOCK\nFLOCK a b\n", 0xfe, 1, 12), None);
    }
}
