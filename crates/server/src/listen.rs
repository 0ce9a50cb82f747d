//! Listening sockets: opening them, accepting from them, taking their names away again.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use crate::config::Address;
use crate::error::{ServerError, ServerErrorKind};

/// A socket that clients connect to. Its name goes when it is dropped.
pub(crate) struct Listener {
    socket: Socket,
    address: Address,
}

enum Socket {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    pub(crate) fn open(address: &Address) -> Result<Listener, ServerError> {
        let socket = match address {
            Address::Unix(path) => open_unix(path).map(Socket::Unix),
            Address::Tcp(address) => TcpListener::bind(address)
                .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
                .map(Socket::Tcp),
        };
        let socket = socket.map_err(|error| {
            let what = format!("Cannot listen on {address}; check that nobody else does, and permissions");
            ServerError::because(ServerErrorKind::Socket, what, error)
        })?;
        Ok(Listener { socket, address: address.clone() })
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

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Unix(listener) => listener.as_fd(),
            Socket::Tcp(listener) => listener.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Address::Unix(path) = &self.address {
            // Gone already, or not removable: either way the next start deals with it.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Opens a unix socket, in place of one that a killed daemon left behind.
fn open_unix(path: &PathBuf) -> std::io::Result<UnixListener> {
    let listener = match UnixListener::bind(path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse && is_left_behind(path)? => {
            std::fs::remove_file(path)?;
            UnixListener::bind(path)?
        }
        outcome => outcome?,
    };
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Whether the path is a socket that nobody listens on.
fn is_left_behind(path: &Path) -> std::io::Result<bool> {
    if !std::fs::symlink_metadata(path)?.file_type().is_socket() {
        return Ok(false);
    }
    match UnixStream::connect(path) {
        Err(error) => Ok(error.kind() == ErrorKind::ConnectionRefused),
        Ok(_) => Ok(false),
    }
}
