//! Client against server over two in-memory wires, in random slices, with replies in random order.

use std::collections::{HashMap, VecDeque};

use lode_nbd::{
    Command, CommandError, CommandFlags, ExportInfo, Handshake, HandshakeStep, Received, ReplyEncoder,
    Request, Transmission,
};
use lode_nbd::{Negotiated, proto};
use lode_nbd_client::{ClientEvent, ClientHandshake, ClientProgress, ClientTransmission, RemoteExport};
use proptest::prelude::*;

const SIZE_BYTES: usize = 64 << 10;
/// Requests that touch this sector fail on the server's medium.
const BROKEN_BYTES: std::ops::Range<u64> = 512 * 20..512 * 21;

fn touches_broken(request: &Request) -> bool {
    request.offset_bytes < BROKEN_BYTES.end
        && request.offset_bytes + u64::from(request.length_bytes) > BROKEN_BYTES.start
}

fn range(request: &Request) -> std::ops::Range<usize> {
    let start = request.offset_bytes as usize;
    start..start + request.length_bytes as usize
}

/// The server's side: a memory disk behind a parser. Requests are carried out as they arrive; their replies
/// are queued, each as one or more messages, and leave in the order the test chooses.
struct Server {
    transmission: Transmission,
    encoder: ReplyEncoder,
    structured: bool,
    receives_directly: bool,
    disk: Vec<u8>,
    write: Option<(Request, Vec<u8>)>,
    queued: Vec<VecDeque<Vec<u8>>>,
    ended: bool,
}

impl Server {
    fn new(export: &ExportInfo, structured: bool, receives_directly: bool) -> Server {
        Server {
            transmission: Transmission::new(export, &Negotiated { structured, ..Negotiated::default() }),
            encoder: ReplyEncoder::new(structured),
            structured,
            receives_directly,
            disk: vec![0; SIZE_BYTES],
            write: None,
            queued: Vec::new(),
            ended: false,
        }
    }

    fn receive(&mut self, mut input: &[u8]) {
        loop {
            let due = self.transmission.payload_remaining_bytes() as usize;
            if self.receives_directly && due > 0 && !input.is_empty() {
                let (piece, rest) = input.split_at(due.min(input.len()));
                self.transmission.payload_received(piece.len() as u32).unwrap();
                self.write.as_mut().unwrap().1.extend_from_slice(piece);
                input = rest;
            } else {
                let (used, event) = self.transmission.advance(input).unwrap();
                input = &input[used..];
                match event {
                    None => return,
                    Some(Received::Request(request)) => self.carry_out(&request, &[]),
                    Some(Received::WriteStart(request)) => self.write = Some((request, Vec::new())),
                    Some(Received::WriteData(bytes)) => {
                        self.write.as_mut().unwrap().1.extend_from_slice(bytes)
                    }
                    Some(Received::Disconnect) => self.ended = true,
                    Some(Received::Refused { .. }) => panic!("the client checks its requests"),
                }
            }
            if let Some((request, payload)) = self.write.take_if(|(r, p)| p.len() == r.length_bytes as usize)
            {
                self.carry_out(&request, &payload);
            }
        }
    }

    fn carry_out(&mut self, request: &Request, payload: &[u8]) {
        let cookie = request.cookie;
        let mut message = Vec::new();
        if request.command != Command::Flush && touches_broken(request) {
            self.encoder.error(&mut message, cookie, CommandError::Eio, "broken sector");
            self.queued.push(VecDeque::from([message]));
            return;
        }
        match request.command {
            Command::Read => return self.queue_read(request),
            Command::Write => self.disk[range(request)].copy_from_slice(payload),
            Command::Trim | Command::WriteZeroes => self.disk[range(request)].fill(0),
            Command::Flush | Command::Cache | Command::BlockStatus => {}
        }
        self.encoder.success(&mut message, cookie);
        self.queued.push(VecDeque::from([message]));
    }

    /// Structured reads that may be fragmented are answered sector by sector, last sector first.
    fn queue_read(&mut self, request: &Request) {
        let cookie = request.cookie;
        let mut messages = VecDeque::new();
        if self.structured && !request.flags.df() {
            for sector in (0..request.length_bytes / 512).rev() {
                let offset_bytes = request.offset_bytes + u64::from(sector) * 512;
                let mut message = Vec::new();
                self.encoder.read_piece(&mut message, cookie, offset_bytes, 512).unwrap();
                message.extend_from_slice(&self.disk[offset_bytes as usize..][..512]);
                messages.push_back(message);
            }
            let mut message = Vec::new();
            self.encoder.read_end(&mut message, cookie);
            messages.push_back(message);
        } else {
            let mut message = Vec::new();
            self.encoder.read_data(&mut message, cookie, request.offset_bytes, request.length_bytes);
            message.extend_from_slice(&self.disk[range(request)]);
            messages.push_back(message);
        }
        self.queued.push(messages);
    }

    /// Sends the next message of one of the queued replies.
    fn send_one(&mut self, choice: usize, out: &mut Vec<u8>) {
        if self.queued.is_empty() {
            return;
        }
        let index = choice % self.queued.len();
        out.extend(self.queued[index].pop_front().unwrap());
        if self.queued[index].is_empty() {
            self.queued.swap_remove(index);
        }
    }
}

/// The client's side, with what each request must come to.
struct Client {
    transmission: ClientTransmission,
    model: Vec<u8>,
    expected: HashMap<u64, Expected>,
}

struct Expected {
    request: Request,
    contents: Vec<u8>,
    got: Vec<u8>,
}

impl Client {
    fn submit(&mut self, request: &Request, out: &mut Vec<u8>) {
        self.transmission.submit(request, out).unwrap();
        let payload: Vec<u8> =
            (0..request.length_bytes).map(|at| (at + request.cookie as u32 * 7) as u8).collect();
        if request.command == Command::Write {
            out.extend_from_slice(&payload);
        }
        let contents = match request.command {
            Command::Read => self.model[range(request)].to_vec(),
            _ => Vec::new(),
        };
        if !touches_broken(request) {
            match request.command {
                Command::Write => self.model[range(request)].copy_from_slice(&payload),
                Command::Trim | Command::WriteZeroes => self.model[range(request)].fill(0),
                Command::Read | Command::Flush | Command::Cache | Command::BlockStatus => {}
            }
        }
        let got = vec![0xee; contents.len()];
        self.expected.insert(request.cookie, Expected { request: *request, contents, got });
    }

    fn receive(&mut self, mut input: &[u8], directly: bool) {
        loop {
            if let Some((cookie, offset_bytes, due)) = self.transmission.data_due()
                && directly
                && due > 0
                && !input.is_empty()
            {
                let (piece, rest) = input.split_at(input.len().min(due as usize));
                self.transmission.data_received(piece.len() as u32).unwrap();
                self.place(cookie, offset_bytes, piece);
                input = rest;
            }
            let (used, event) = self.transmission.advance(input).unwrap();
            input = &input[used..];
            match event {
                None => return,
                Some(ClientEvent::ReadData { cookie, offset_bytes, bytes }) => {
                    self.place(cookie, offset_bytes, bytes);
                }
                Some(ClientEvent::ReadZeroes { .. }) => panic!("this server sends no holes"),
                Some(ClientEvent::Done { cookie }) => {
                    let expected = self.expected.remove(&cookie).unwrap();
                    assert_eq!(expected.got, expected.contents, "{:?}", expected.request);
                    assert!(expected.request.command == Command::Flush || !touches_broken(&expected.request));
                }
                Some(ClientEvent::Failed { cookie, error, .. }) => {
                    let expected = self.expected.remove(&cookie).unwrap();
                    assert!(touches_broken(&expected.request) && error == CommandError::Eio);
                }
            }
        }
    }

    fn place(&mut self, cookie: u64, offset_bytes: u64, bytes: &[u8]) {
        let expected = self.expected.get_mut(&cookie).unwrap();
        let start = (offset_bytes - expected.request.offset_bytes) as usize;
        expected.got[start..start + bytes.len()].copy_from_slice(bytes);
    }
}

/// Takes at most `most` bytes off a wire.
fn take(wire: &mut Vec<u8>, most: usize) -> Vec<u8> {
    wire.drain(..most.min(wire.len())).collect()
}

fn connect(
    exports: &[ExportInfo],
    structured: bool,
    mut next_size: impl FnMut() -> usize,
) -> (Negotiated, RemoteExport) {
    let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
    let mut server = Handshake::start(&mut to_client);
    let mut client = ClientHandshake::go("vm2", structured).unwrap();
    let (mut negotiated, mut remote) = (None, None);
    while negotiated.is_none() || remote.is_none() {
        let mut piece = &take(&mut to_server, next_size())[..];
        while !piece.is_empty() {
            let (used, progress) = server.advance(piece, exports, |_| true, &mut to_client).unwrap();
            piece = &piece[used..];
            if let HandshakeStep::Done(done) = progress {
                assert!(piece.is_empty());
                negotiated = Some(done);
            }
        }
        let piece = take(&mut to_client, next_size());
        let (used, progress) = client.advance(&piece, &mut to_server).unwrap();
        assert_eq!(used, piece.len());
        if let ClientProgress::Done(done) = progress {
            remote = Some(done);
        }
    }
    assert!(to_client.is_empty() && to_server.is_empty());
    (negotiated.unwrap(), remote.unwrap())
}

/// Command, first sector, sectors, flags of a request, to be made valid.
fn any_request() -> impl Strategy<Value = (u16, u64, u32, u16)> {
    let commands =
        prop_oneof![4 => Just(0u16), 4 => Just(1), 1 => Just(3), 1 => Just(4), 1 => Just(5), 1 => Just(6)];
    (commands, 0u64..120, 1u32..9, 0u16..8)
}

fn valid(cookie: u64, (code, sector, sectors, flags): (u16, u64, u32, u16), structured: bool) -> Request {
    let command = Command::from_code(code).unwrap();
    let allowed = match command {
        Command::Read if structured => proto::CMD_FLAG_FUA | proto::CMD_FLAG_DF,
        Command::WriteZeroes => proto::CMD_FLAG_FUA | proto::CMD_FLAG_NO_HOLE,
        _ => proto::CMD_FLAG_FUA,
    };
    let (offset_bytes, length_bytes) =
        if command == Command::Flush { (0, 0) } else { (sector * 512, sectors * 512) };
    Request { cookie, offset_bytes, length_bytes, command, flags: CommandFlags(flags & allowed) }
}

proptest! {
    #[test]
    fn every_request_comes_to_what_the_model_says(
        requests in prop::collection::vec(any_request(), 1..60),
        sizes in prop::collection::vec(1usize..3000, 1..12),
        choices in prop::collection::vec(any::<u16>(), 1..12),
        structured: bool,
        directly: bool,
    ) {
        let other = ExportInfo::new("vm1", 512).unwrap();
        let export = ExportInfo::new("vm2", SIZE_BYTES as u64).unwrap().with_description("disk").unwrap();
        let mut turns = sizes.iter().copied().cycle();
        let mut next_size = || turns.next().unwrap();
        let (negotiated, remote) = connect(&[other, export.clone()], structured, &mut next_size);
        prop_assert_eq!(negotiated, Negotiated { export: 1, structured, no_zeroes: true, ..Negotiated::default() });
        prop_assert_eq!((remote.size_bytes, remote.structured), (SIZE_BYTES as u64, structured));
        prop_assert_eq!(remote.transmission_flags, export.transmission_flags(structured));
        prop_assert_eq!(remote.name.as_deref(), Some("vm2"));
        prop_assert_eq!(remote.description.as_deref(), Some("disk"));

        let mut server = Server::new(&export, negotiated.structured, directly);
        let transmission = ClientTransmission::new(&remote);
        let mut client = Client { transmission, model: vec![0; SIZE_BYTES], expected: HashMap::new() };
        let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
        let mut queue = requests.into_iter().enumerate();
        let mut choices = choices.iter().copied().map(usize::from).cycle();
        let mut submitted_all = false;
        while !submitted_all || client.transmission.in_flight() > 0 {
            match queue.next() {
                Some((cookie, request)) => {
                    client.submit(&valid(cookie as u64, request, structured), &mut to_server);
                }
                None => submitted_all = true,
            }
            server.receive(&take(&mut to_server, next_size()));
            server.send_one(choices.next().unwrap(), &mut to_client);
            client.receive(&take(&mut to_client, next_size()), directly);
        }
        prop_assert!(client.expected.is_empty() && to_client.is_empty());
        prop_assert_eq!(&server.disk, &client.model);
        client.transmission.disconnect(&mut to_server);
        server.receive(&to_server);
        prop_assert!(server.ended);
    }
}
