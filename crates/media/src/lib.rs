//! All input and output: files, block devices and sockets behind one completion interface.
//!
//! A [`Driver`] belongs to one thread. Work is handed in with [`Driver::submit`] together with the
//! buffers it needs; [`Driver::wait`] hands both back. Buffers are owned by the driver in between, so
//! the kernel never writes to memory that somebody else holds.
//!
//! This crate must not know policies, guests or network protocols: it moves bytes.

mod blocking;
mod delay;
mod disks;
mod driver;
mod error;
mod file;
mod holder;
mod ioctl;
mod op;
mod outbox;
mod pool;
mod port;
mod shared_memory;
mod signature;
mod socket;
mod spin;
mod table;
mod threads;
mod uring;
mod waker;

pub use delay::{Access, HddModel, Spindle};
pub use disks::disks_under;
pub use driver::{AnyDriver, Driver, DriverChoice, SPIN_LIMIT, Which, open_driver};
pub use error::{FaultKind, MediaFault};
pub use file::{Direct, FileTimes, Lock, MediaFile, OpenOptions};
pub use op::{Done, FileExtent, FileId, Message, Payload, SocketId};
pub use pool::POOL_THREADS;
pub use shared_memory::{SharedMemory, is_in_memory};
pub use signature::identify;
pub use waker::Waker;
