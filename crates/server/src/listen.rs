//! Listening sockets: opening them, accepting from them, taking their names away again.

use std::fs::{Metadata, Permissions};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with, sockopt,
};

use crate::config::{Address, Listen};
use crate::error::{ServerError, ServerErrorKind};

/// Clients that wait to be accepted; the system may take fewer.
const BACKLOG: i32 = 4096;

/// How long a client's host may be silent before it is asked whether it is still there, and how often it is asked.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_PAUSE: Duration = Duration::from_secs(10);
/// How long it may leave that, or what it is sent, without an answer.
const TCP_LIMIT: Duration = Duration::from_secs(120);

/// A socket that clients connect to. Its name goes when it is dropped, if it is still this one's.
pub(crate) struct Listener {
    socket: Socket,
    address: Address,
    _name: Option<Name>,
}

enum Socket {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    /// # Errors
    /// When somebody else listens there, or the host does not allow it.
    pub(crate) fn open(listen: &Listen) -> Result<Listener, ServerError> {
        let address = &listen.address;
        let opened = match address {
            Address::Unix(path) => {
                check_folder(path)?;
                let group = listen.group.as_deref().map(find_group).transpose()?;
                open_unix(path, listen.mode, group).map(|(unix, name)| (Socket::Unix(unix), Some(name)))
            }
            Address::Tcp(address) => TcpListener::bind(address)
                .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
                .map(|tcp| (Socket::Tcp(tcp), None)),
        };
        let (socket, name) = opened.map_err(|error| {
            let what = format!("Cannot listen on {address}; check that nobody else does, and permissions");
            ServerError::because(ServerErrorKind::Socket, what, error)
        })?;
        Ok(Listener { socket, address: address.clone(), _name: name })
    }

    /// The next client that waits, if there is one. Its socket does not block.
    pub(crate) fn accept(&self) -> std::io::Result<Option<OwnedFd>> {
        let accepted = match &self.socket {
            Socket::Unix(listener) => listener
                .accept()
                .and_then(|(stream, _)| stream.set_nonblocking(true).map(|()| OwnedFd::from(stream))),
            Socket::Tcp(listener) => listener.accept().and_then(|(stream, _)| {
                stream.set_nonblocking(true)?;
                // Replies are sent whole; waiting for company only delays them.
                stream.set_nodelay(true)?;
                notice_vanished_hosts(&stream)?;
                Ok(OwnedFd::from(stream))
            }),
        };
        match accepted {
            Ok(socket) => Ok(Some(socket)),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
            // The client was gone before it was accepted.
            Err(error)
                if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }
}

/// A client whose host is gone says nothing of it; its connection ends all the same, and with it what it had begun.
fn notice_vanished_hosts(stream: &TcpStream) -> std::io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE_PAUSE)?;
    sockopt::set_tcp_user_timeout(stream, TCP_LIMIT.as_millis() as u32)?;
    Ok(())
}

/// Who is at the other end of a socket, for the log: an address, or a process.
pub(crate) fn peer(socket: &OwnedFd) -> String {
    let address = rustix::net::getpeername(socket).ok().flatten();
    match address.and_then(|address| SocketAddr::try_from(address).ok()) {
        Some(address) => address.to_string(),
        None => match rustix::net::sockopt::socket_peercred(socket) {
            Ok(process) => format!("process {} of user {}", process.pid.as_raw_pid(), process.uid.as_raw()),
            Err(_) => "nowhere".to_owned(),
        },
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Unix(listener) => listener.as_fd(),
            Socket::Tcp(listener) => listener.as_fd(),
        }
    }
}

/// The name of a unix socket, which is removed when this is dropped, unless it is another socket's by then.
struct Name {
    path: PathBuf,
    /// Device and inode of the socket that was given this name.
    file: (u64, u64),
}

impl Name {
    fn of(path: &Path) -> std::io::Result<Name> {
        Ok(Name { path: path.to_path_buf(), file: identity(&std::fs::symlink_metadata(path)?) })
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        // Gone already, or not removable: either way the next start deals with it.
        let _ = remove_own(&self.path, self.file);
    }
}

fn check_folder(path: &Path) -> Result<(), ServerError> {
    match path.parent() {
        Some(folder) if !folder.is_dir() => {
            let text = format!(
                "Cannot listen on unix:{}: there is no folder {}; create it, at each start of the host if it is in \
                 memory (systemd: RuntimeDirectory=)",
                path.display(),
                folder.display()
            );
            Err(ServerError::new(ServerErrorKind::Socket, text))
        }
        _ => Ok(()),
    }
}

/// The number of a group of this host.
fn find_group(name: &str) -> Result<u32, ServerError> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    match nix::unistd::Group::from_name(name) {
        Ok(Some(group)) => Ok(group.gid.as_raw()),
        Ok(None) => {
            let text = format!("There is no group '{name}' on this host; correct `group` in `listen`");
            Err(ServerError::new(ServerErrorKind::Config, text))
        }
        Err(error) => {
            let what = format!("Cannot look up the group '{name}' (`group` in `listen`)");
            Err(ServerError::because(ServerErrorKind::Config, what, error))
        }
    }
}

/// Opens a unix socket, in place of one that a killed daemon left behind.
fn open_unix(path: &Path, mode: Option<u32>, group: Option<u32>) -> std::io::Result<(UnixListener, Name)> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match bind(&socket, &address) {
        Err(Errno::ADDRINUSE) => {
            remove_left_behind(path, &address)?;
            bind(&socket, &address)?;
        }
        outcome => outcome?,
    }
    let name = Name::of(path)?;
    // Nobody can connect before the socket listens, and from then on only those who may.
    if group.is_some() {
        chown(path, None, group)?;
    }
    if let Some(mode) = mode {
        std::fs::set_permissions(path, Permissions::from_mode(mode))?;
    }
    listen(&socket, BACKLOG)?;
    Ok((socket.into(), name))
}

/// Removes the name of a socket that nobody listens on.
fn remove_left_behind(path: &Path, address: &SocketAddrUnix) -> std::io::Result<()> {
    let found = std::fs::symlink_metadata(path)?;
    let in_use = |text| Err(std::io::Error::new(ErrorKind::AddrInUse, text));
    if !found.file_type().is_socket() {
        return in_use("there is a file of this name that is not a socket");
    }
    // Without waiting: one with many clients is not left behind.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let probe = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match connect(&probe, address) {
        Err(Errno::CONNREFUSED) => remove_own(path, identity(&found)),
        _ => in_use("another process listens there"),
    }
}

fn identity(found: &Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

/// Removes a name if it is still that of this file.
fn remove_own(path: &Path, file: (u64, u64)) -> std::io::Result<()> {
    match identity(&std::fs::symlink_metadata(path)?) == file {
        true => std::fs::remove_file(path),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    fn entry(path: &Path) -> Listen {
        Address::Unix(path.to_path_buf()).into()
    }

    fn refusal(listen: &Listen) -> String {
        Listener::open(listen).err().expect("it listens").to_string()
    }

    #[test]
    fn a_socket_left_behind_is_taken_over_and_nothing_else() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("a.sock");
        // A killed process leaves the name, as does one that closes its socket and no more.
        drop(UnixListener::bind(&path).unwrap());
        let first = Listener::open(&entry(&path)).unwrap();
        UnixStream::connect(&path).unwrap();
        assert!(refusal(&entry(&path)).contains("another process listens there"));
        assert!(first.accept().unwrap().is_some(), "the first one did not notice");
        drop(first);
        assert!(!path.exists());
        // One that is alive and accepts nobody.
        let alive = UnixListener::bind(&path).unwrap();
        rustix::net::listen(&alive, 0).unwrap();
        let _waits = UnixStream::connect(&path).unwrap();
        assert!(refusal(&entry(&path)).contains("another process listens there"));
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "precious").unwrap();
        assert!(refusal(&entry(&path)).contains("is not a socket"));
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn a_name_that_is_another_sockets_by_now_is_left_alone() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("a.sock");
        let first = Listener::open(&entry(&path)).unwrap();
        std::fs::rename(&path, folder.path().join("aside")).unwrap();
        let second = Listener::open(&entry(&path)).unwrap();
        drop(first);
        UnixStream::connect(&path).expect("the second one's name is there");
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn a_socket_has_the_mode_and_group_of_its_entry() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("a.sock");
        // Root may give any group; others their own.
        let own = rustix::process::getegid().as_raw();
        let group = if rustix::process::geteuid().is_root() { own + 1 } else { own };
        let listen = Listen { mode: Some(0o640), group: Some(group.to_string()), ..entry(&path) };
        let _listener = Listener::open(&listen).unwrap();
        let found = std::fs::symlink_metadata(&path).unwrap();
        assert_eq!((found.mode() & 0o7777, found.gid()), (0o640, group));
        let absent = Listen { group: Some("no such group".to_owned()), ..entry(&folder.path().join("b")) };
        assert!(refusal(&absent).contains("There is no group 'no such group'"));
    }

    #[test]
    fn groups_are_found_by_name() {
        let text = std::fs::read_to_string("/etc/group").unwrap_or_default();
        let Some((name, rest)) = text.lines().next().and_then(|line| line.split_once(':')) else {
            return lode_testdata::skip("this host has no /etc/group");
        };
        let number: u32 = rest.split(':').nth(1).unwrap().parse().unwrap();
        assert_eq!(find_group(name).unwrap(), number);
    }

    /// No test can have a host vanish; the system does what it is told.
    #[test]
    fn hosts_that_vanish_are_noticed() {
        let address = Address::Tcp("127.0.0.1:0".parse().unwrap());
        let listener = Listener::open(&address.into()).unwrap();
        let Socket::Tcp(tcp) = &listener.socket else { panic!("it is TCP") };
        let _client = TcpStream::connect(tcp.local_addr().unwrap()).unwrap();
        let accepted = std::iter::repeat_with(|| listener.accept().unwrap()).flatten().next().unwrap();
        assert!(sockopt::socket_keepalive(&accepted).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&accepted).unwrap(), KEEPALIVE_IDLE);
        assert_eq!(sockopt::tcp_keepintvl(&accepted).unwrap(), KEEPALIVE_PAUSE);
        assert_eq!(sockopt::tcp_user_timeout(&accepted).unwrap(), TCP_LIMIT.as_millis() as u32);
    }

    #[test]
    fn a_missing_folder_is_named() {
        let folder = tempfile::TempDir::new().unwrap();
        let missing = folder.path().join("run/lodestore");
        let said = refusal(&entry(&missing.join("a.sock")));
        let expected = format!("there is no folder {}; create it", missing.display());
        assert!(said.contains(&expected), "{said}");
    }
}
