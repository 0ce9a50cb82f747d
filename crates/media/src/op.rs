//! The vocabulary of a driver beside [`CommandKind`], which is what files are asked to do: sockets' operations, and
//! completions. Every buffer moves in with its operation and comes back with its completion.

use lode_types::{Buf, Bufs, Bytes, CommandKind, MediaError};

use crate::table::Key;

/// Slices of memory that the kernel takes in one call (`UIO_MAXIOV`); the rest follows in the next.
pub(crate) const MAX_VECTORS: usize = 1024;

/// A file added to a driver. Finds nothing once the file is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId(pub(crate) Key);

/// A socket added to a driver. Finds nothing once the socket is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SocketId(pub(crate) Key);

/// What is sent at once: short texts, such as headers, which share one buffer, and shared bytes between them, such as the
/// data of reads, which are sent from where they are. Memory is kept for the next message.
#[derive(Debug, Default)]
pub struct Message {
    text: Vec<u8>,
    /// Shared bytes, and the length of the text before them.
    data: Vec<(usize, Bytes)>,
}

impl Message {
    /// The text so far, to append to.
    pub fn text(&mut self) -> &mut Vec<u8> {
        &mut self.text
    }

    /// Appends shared bytes.
    pub fn push(&mut self, bytes: Bytes) {
        self.data.push((self.text.len(), bytes));
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.text.len() + self.data.iter().map(|(_, bytes)| bytes.len()).sum::<usize>()
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty() && self.data.is_empty()
    }

    /// Empties it. A text buffer of more than `most_text_bytes` is given up.
    pub fn clear(&mut self, most_text_bytes: usize) {
        self.text.clear();
        self.text.shrink_to(most_text_bytes);
        self.data.clear();
    }

    /// All of it, in order. No slice is empty.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let end = (self.text.len(), &[][..]);
        let data = self.data.iter().map(|(at, bytes)| (*at, &bytes[..])).chain([end]);
        let pieces = data.scan(0, |from, (to, bytes)| {
            let text = &self.text[*from..to];
            *from = to;
            Some([text, bytes])
        });
        pieces.flatten().filter(|bytes| !bytes.is_empty())
    }
}

/// A stretch of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileExtent {
    /// Its length, not zero.
    pub length_bytes: u64,
    /// Nothing is allocated for it, and it reads as zeroes.
    pub is_hole: bool,
}

/// The buffers of an operation, handed back.
#[derive(Debug)]
pub enum Payload {
    /// The operation had none, or was a write.
    None,
    /// The buffers of a read.
    Bufs(Bufs),
    /// The buffer of a receive.
    Buf(Buf),
    /// The message of a send.
    Message(Message),
    /// What was found of a file, from the first byte asked for on.
    FileExtents(Vec<FileExtent>),
}

/// The end of an operation.
#[derive(Debug)]
pub struct Done {
    /// What the operation was submitted with.
    pub token: u64,
    /// Bytes moved (0 for flush, trim and write-zeroes), or why it failed. A read that ended well has filled its buffers.
    /// After a failed read their bytes mean nothing; after a failed send nobody knows how much the peer has seen.
    pub result: Result<usize, MediaError>,
    /// The operating system's error number behind a failure, for the log.
    pub os_error: Option<i32>,
    /// The buffers.
    pub payload: Payload,
}

/// The buffers of a file command, as a payload.
pub(crate) fn payload_of(kind: CommandKind) -> Payload {
    if let CommandKind::Read { bufs, .. } = kind { Payload::Bufs(bufs) } else { Payload::None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_sent_in_order() {
        let mut message = Message::default();
        assert!(message.is_empty());
        message.push(Bytes::from_static(b"ab"));
        message.text().extend_from_slice(b"cde");
        message.push(Bytes::from_static(b"f"));
        message.push(Bytes::from_static(b"gh"));
        message.text().extend_from_slice(b"ij");
        let whole = b"abcdefghij";
        assert_eq!(message.len(), whole.len());
        let slices: Vec<&[u8]> = message.slices().collect();
        assert_eq!(slices.concat(), whole);
        assert!(slices.iter().all(|slice| !slice.is_empty()));
        message.clear(1);
        assert!(message.is_empty() && message.slices().next().is_none());
    }
}
