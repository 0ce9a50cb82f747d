//! Guarantees 2, 6, 10 and 11 of `docs/design.md` with a database for a guest: PostgreSQL on a file system on a served disk. The daemon
//! is killed again and again while pgbench runs; every transaction that it saw committed is there afterwards, and all balances agree.
//! Of a disk that is written in the order of its guest's flushes, the image alone is a file system with a database, a little older.

use std::fs;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, chown};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::common::{Daemon, MIB, Numbers, Site, has_tool, lode_ok, output_of};

const KILLS: u64 = 20;
const CLIENTS: u64 = 4;
const DISK_MIB: u64 = 512;
/// Longer than any step takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// Has it succeed, and says what it said.
fn run(command: &mut Command) -> Output {
    let output = output_of(command);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {} {said}", output.status);
    output
}

/// A command of the system, of which is told what it says.
fn tool(name: &str) -> Command {
    let mut command = Command::new(name);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what} does not come about");
        sleep(Duration::from_millis(20));
    }
}

/// Whether nothing is mounted from a block device any more, in any mount namespace. `umount` may return long before: one that another
/// process began in the meantime, as a test beside this one does, has a copy of the mount until it ends.
fn is_unused(device: &str) -> bool {
    let exclusive = rustix::fs::OFlags::EXCL.bits().cast_signed();
    fs::File::options().read(true).custom_flags(exclusive).open(device).is_ok()
}

/// Where the distribution keeps the programs that have no place in `PATH`.
fn server_programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?.flatten().map(|entry| entry.path().join("bin"));
    versions.filter(|bin| bin.join("initdb").exists()).max()
}

/// The numbers of the user and the group `postgres`.
fn postgres_user() -> Option<(u32, u32)> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let user: Vec<&str> = users.lines().find(|line| line.starts_with("postgres:"))?.split(':').collect();
    Some((user[2].parse().ok()?, user[3].parse().ok()?))
}

/// A disk as a mounted file system: an image, or what an NBD client in user space shows as one, and a loop device.
struct Mounted<'a> {
    place: &'a Place,
    client: Option<Child>,
    device: String,
}

/// What is on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileSystem {
    Ext4,
    Xfs,
}

impl FileSystem {
    fn make(self, device: &str) {
        match self {
            FileSystem::Ext4 => run(tool("mkfs.ext4").args(["-q", device])),
            FileSystem::Xfs => run(tool("mkfs.xfs").args(["-q", "-f", device])),
        };
    }

    /// Replays the journal, and finds nothing wrong beyond that.
    fn check(self, device: &str, folder: &Path) {
        match self {
            FileSystem::Ext4 => {
                // 1: there was something to do; damage beyond that has other codes.
                let check = output_of(tool("e2fsck").args(["-f", "-p", device]));
                let said = String::from_utf8_lossy(&check.stdout);
                assert!(matches!(check.status.code(), Some(0 | 1)), "e2fsck: {} {said}", check.status);
            }
            FileSystem::Xfs => {
                run(tool("mount").arg(device).arg(folder));
                run(tool("umount").arg(folder));
                wait_for("the end of the file system", || is_unused(device));
                run(tool("xfs_repair").args(["-n", device]));
            }
        }
    }
}

/// Folders and programs.
struct Place {
    folder: PathBuf,
    programs: PathBuf,
    user: (u32, u32),
    file_system: FileSystem,
}

impl Place {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn as_postgres(&self, program: &Path) -> Command {
        let mut command = Command::new("setpriv");
        let (user, group) = self.user;
        command
            .args([format!("--reuid={user}"), format!("--regid={group}")])
            .arg("--clear-groups")
            .arg(program);
        command
            .current_dir(self.path("sockets"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    fn program(&self, name: &str) -> Command {
        self.as_postgres(&self.programs.join(name))
    }

    /// Where served disks can be mounted and a database run; otherwise it says why not.
    fn of(site: &Site, file_system: FileSystem) -> Option<Place> {
        let tools = ["nbdfuse", "losetup", "mkfs.ext4", "e2fsck", "mkfs.xfs", "xfs_repair", "setpriv"];
        if !tools.iter().all(|tool| has_tool(tool)) {
            return None;
        }
        let (Some(programs), Some(user)) = (server_programs(), postgres_user()) else {
            lode_testdata::skip("PostgreSQL is not installed");
            return None;
        };
        if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
            lode_testdata::skip("served disks can be mounted by root only, where there is FUSE");
            return None;
        }
        let place = Place { folder: site.folder.path().to_owned(), programs, user, file_system };
        fs::set_permissions(&place.folder, fs::Permissions::from_mode(0o711)).unwrap();
        ["fuse", "mounted", "sockets"].iter().for_each(|name| fs::create_dir(place.path(name)).unwrap());
        chown(place.path("sockets"), Some(user.0), Some(user.1)).unwrap();
        fs::File::options().write(true).open(site.path("vm2.img")).unwrap().set_len(DISK_MIB * MIB).unwrap();
        Some(place)
    }

    fn mount(&self, site: &Site, daemon: &Daemon<'_>, is_new: bool) -> Mounted<'_> {
        // It waits until the VM is served; the client of the file system would not.
        drop(daemon.client("vm2"));
        let disk = self.path("fuse/disk");
        let mut client = Command::new("nbdfuse");
        client.arg(&disk).arg(site.uri("vm2")).stdin(Stdio::null()).stderr(Stdio::null());
        let client = client.spawn().unwrap();
        wait_for("the disk", || fs::metadata(&disk).is_ok_and(|found| found.len() == DISK_MIB * MIB));
        self.mount_file(&disk, Some(client), is_new)
    }

    fn mount_file(&self, disk: &Path, client: Option<Child>, is_new: bool) -> Mounted<'_> {
        let found = run(tool("losetup").args(["-f", "--show", "--direct-io=on"]).arg(disk));
        let device = String::from_utf8(found.stdout).unwrap().trim().to_owned();
        let mounted = Mounted { place: self, client, device };
        match is_new {
            true => self.file_system.make(&mounted.device),
            false => self.file_system.check(&mounted.device, &self.path("mounted")),
        }
        run(tool("mount").arg(&mounted.device).arg(self.path("mounted")));
        mounted
    }

    /// A new database on what is mounted.
    fn begin_database(&self) -> Database {
        let data = self.path("mounted/data");
        fs::create_dir(&data).unwrap();
        chown(&data, Some(self.user.0), Some(self.user.1)).unwrap();
        run(self.program("initdb").arg("-D").arg(&data).args(["-A", "trust"]));
        let database = self.start_database();
        run(&mut self.pgbench(&["-q", "-i", "-s", "2"]));
        database
    }

    fn start_database(&self) -> Database {
        let log = fs::File::options().create(true).append(true).open(self.path("database.log")).unwrap();
        let mut database = self.program("postgres");
        database.arg("-D").arg(self.path("mounted/data")).arg("-k").arg(self.path("sockets"));
        let settings = ["listen_addresses=", "shared_buffers=16MB", "max_wal_size=64MB"];
        for setting in settings {
            database.args(["-c", setting]);
        }
        let database = Database(database.stderr(log).spawn().unwrap());
        wait_for("the database", || {
            let mut is_ready = self.program("pg_isready");
            output_of(is_ready.arg("-q").arg("-h").arg(self.path("sockets"))).status.success()
        });
        database
    }

    fn pgbench(&self, arguments: &[&str]) -> Command {
        let mut command = self.program("pgbench");
        command.args(arguments).arg("-h").arg(self.path("sockets")).arg("postgres");
        command
    }

    /// When transactions of a round were committed, as pgbench saw it: microseconds since 1970 began.
    fn committed(&self, round: u64) -> Vec<u64> {
        let prefix = format!("round{round}.");
        let logs = fs::read_dir(self.path("sockets")).unwrap().map(|entry| entry.unwrap().path());
        let of_round = logs.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(&prefix));
        let texts = of_round.map(|path| fs::read_to_string(path).unwrap());
        texts.flat_map(|text| text.lines().map(ended_us).collect::<Vec<_>>()).collect()
    }

    /// Transactions in the history, and the sums of all balances and of the history.
    fn totals(&self) -> (u64, [i64; 4]) {
        let question = "SELECT (SELECT count(*) FROM pgbench_history), (SELECT sum(abalance) FROM pgbench_accounts), \
                        (SELECT sum(tbalance) FROM pgbench_tellers), (SELECT sum(bbalance) FROM pgbench_branches), \
                        (SELECT coalesce(sum(delta), 0) FROM pgbench_history)";
        let mut command = self.program("psql");
        command.args(["-At", "-c", question, "-h"]).arg(self.path("sockets")).arg("postgres");
        let answer =
            String::from_utf8(run(command.stdout(Stdio::piped()).stderr(Stdio::piped())).stdout).unwrap();
        let numbers: Vec<i64> = answer.trim().split('|').map(|number| number.parse().unwrap()).collect();
        (numbers[0] as u64, [numbers[1], numbers[2], numbers[3], numbers[4]])
    }
}

/// Of a line of pgbench's log: client, number, duration, script, and the end in seconds and microseconds.
fn ended_us(line: &str) -> u64 {
    let fields: Vec<u64> = line.split(' ').filter_map(|field| field.parse().ok()).collect();
    fields[4] * 1_000_000 + fields[5]
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        // Where a test has failed already, a second panic would end all of them.
        let works = |command: &mut Command| {
            catch_unwind(AssertUnwindSafe(|| output_of(command))).is_ok_and(|output| output.status.success())
        };
        // Processes of the database may take a while to notice that it ended.
        let deadline = Instant::now() + PATIENCE;
        let patiently = |is_so: &mut dyn FnMut() -> bool| {
            while !is_so() && Instant::now() < deadline {
                sleep(Duration::from_millis(20));
            }
        };
        patiently(&mut || works(tool("umount").arg(self.place.path("mounted"))));
        patiently(&mut || is_unused(&self.device));
        works(tool("losetup").args(["-d", &self.device]));
        works(tool("umount").arg(self.place.path("fuse")));
        if let Some(client) = &mut self.client {
            let _ = client.kill();
            let _ = client.wait();
        }
    }
}

/// A database of which nothing may be left running.
struct Database(Child);

impl Drop for Database {
    fn drop(&mut self) {
        // Its processes notice that the first one is gone, and end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Kills the daemon in the middle of a run. The database loses its disk with it, and is killed as well.
fn kill_during_a_run(place: &Place, daemon: Daemon<'_>, database: Database, round: u64, after: Duration) {
    let prefix = format!("--log-prefix=round{round}");
    let clients = CLIENTS.to_string();
    let mut bench =
        place.pgbench(&["-n", "-c", &clients, "-j", "1", "-T", "60", "--log", &prefix]).spawn().unwrap();
    sleep(after);
    daemon.kill();
    wait_for("the end of pgbench", || bench.try_wait().unwrap().is_some());
    drop(database);
}

#[test]
fn g10_a_database_loses_no_commit_when_the_daemon_is_killed() {
    let site = Site::new();
    let Some(place) = Place::of(&site, FileSystem::Ext4) else { return };
    let mut daemon = site.serve_up();
    let mut mounted = place.mount(&site, &daemon, true);
    let mut database = place.begin_database();
    let (mut numbers, mut committed) = (Numbers(0x1da7), 0);
    for round in 0..KILLS {
        let after = Duration::from_millis(200 + numbers.below(700));
        kill_during_a_run(&place, daemon, database, round, after);
        committed += place.committed(round).len() as u64;
        drop(mounted);
        daemon = site.serve_up();
        mounted = place.mount(&site, &daemon, false);
        database = place.start_database();
        let (found, sums) = place.totals();
        // Of each client the last transaction may have been committed without having been answered.
        let most = committed + CLIENTS * (round + 1);
        assert!(
            found >= committed && found <= most,
            "kill {round}: {found} of {committed} to {most} commits"
        );
        assert!(sums.iter().all(|&sum| sum == sums[0]), "kill {round}: balances differ: {sums:?}");
    }
    assert!(committed > 10 * KILLS, "{committed} transactions are too few to say anything");
    println!("{committed} transactions committed through {KILLS} kills");
    drop((database, mounted));
    daemon.stop();
}

#[test]
fn g11_a_database_on_ext4_goes_on_from_the_image_alone() {
    a_database_goes_on_from_the_image_alone(FileSystem::Ext4);
}

#[test]
fn g11_a_database_on_xfs_goes_on_from_the_image_alone() {
    a_database_goes_on_from_the_image_alone(FileSystem::Xfs);
}

/// The daemon is killed in the middle of a run, and of what is left there is the image with its redo log alone.
fn a_database_goes_on_from_the_image_alone(file_system: FileSystem) {
    const LOSSES: u64 = 4;
    // Groups end within a second or two, and are written in less.
    const MOST_BEHIND: Duration = Duration::from_secs(15);
    let site = Site::new();
    let Some(place) = Place::of(&site, file_system) else { return };
    let text = fs::read_to_string(site.path("test.toml")).unwrap();
    let ordered =
        text.replace("ssd = \"16MiB\"", "ssd = \"16MiB\"\nwriteback = { ordered = true, group = \"4MiB\" }");
    assert_ne!(text, ordered);
    fs::write(site.path("test.toml"), ordered).unwrap();

    let mut daemon = site.serve_up();
    let mut mounted = place.mount(&site, &daemon, true);
    let mut database = place.begin_database();
    // What was made is on the disk before anything is lost.
    run(tool("sync").arg("-f").arg(place.path("mounted")));
    sleep(MOST_BEHIND / 3);
    let (mut commits, mut found_before) = (Vec::new(), 0);
    for round in 0..LOSSES {
        kill_during_a_run(&place, daemon, database, round, Duration::from_secs(3));
        let killed_us = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64;
        commits.extend(place.committed(round));
        drop(mounted);
        let copy = site.copy_of_disk("vm2");
        lode_ok(&["recover", &copy]);
        {
            let _mounted = place.mount_file(Path::new(&copy), None, false);
            let _database = place.start_database();
            let (found, sums) = place.totals();
            assert!(sums.iter().all(|&sum| sum == sums[0]), "loss {round}: balances differ: {sums:?}");
            let is_old = |ended_us: &&u64| **ended_us + (MOST_BEHIND.as_micros() as u64) < killed_us;
            let least = commits.iter().filter(is_old).count() as u64;
            assert!(found >= least.max(found_before), "loss {round}: {found} of {least} old commits");
            found_before = found;
        }
        daemon = site.serve_up();
        mounted = place.mount(&site, &daemon, false);
        database = place.start_database();
        assert!(place.totals().0 >= commits.len() as u64, "with its SSD it has everything");
    }
    println!("{file_system:?}: {found_before} of {} transactions on the image alone", commits.len());
    assert!(found_before > 0, "the image never had any transaction");
    drop((database, mounted));
    daemon.stop();
}
