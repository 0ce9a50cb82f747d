//! Answers scrapers of metrics, over HTTP and on a thread of its own: `GET /metrics`, one request a connection. Shards are asked
//! for their numbers at most every now and then, however many scrape. It must not know what the numbers mean.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use tracing::{debug, warn};

use crate::error::{ServerError, ServerErrorKind};
use crate::host::Host;
use crate::listen::Listener;
use crate::metrics;

/// Scrapers at once. A newcomer takes the place of the oldest.
const MAX_SCRAPERS: usize = 8;
/// How long a scraper may take.
const SCRAPER_LIMIT: Duration = Duration::from_secs(10);
/// Longest request, with its headers.
const MAX_REQUEST_BYTES: usize = 8 << 10;
/// Most headers of a request.
const MAX_HEADERS: usize = 64;
/// A page is given out for so long, and for so many times the time that it took to make: a tenth of a core at most.
const PAGE_LIFE: Duration = Duration::from_millis(100);
const PAGE_LIFE_FACTOR: u32 = 10;
/// How long nobody is accepted after the system had no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

const PATH: &str = "/metrics";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

/// The running thread; it ends when this is dropped.
pub(crate) struct ScrapeThread {
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl ScrapeThread {
    pub(crate) fn start(listener: Listener, host: Host) -> Result<ScrapeThread, ServerError> {
        let failed = |error| {
            let what = "Cannot start the thread of metrics; raise the limits of open files and threads";
            ServerError::because(ServerErrorKind::Thread, what, error)
        };
        let (stop, stopped) = UnixStream::pair().map_err(failed)?;
        tracing::info!("Metrics are at {PATH} on {}", listener.address());
        let serve = move || {
            let page = Page { host, made: None };
            Scraping { listener, stopped, page, scrapers: Vec::new(), accept_after: None }.run();
        };
        let thread = std::thread::Builder::new().name("metrics".to_owned()).spawn(serve).map_err(failed)?;
        Ok(ScrapeThread { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for ScrapeThread {
    fn drop(&mut self) {
        self.stop = None;
        // What made it panic is in the log.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

struct Scraping {
    listener: Listener,
    /// Hangs up when the thread is to end.
    stopped: UnixStream,
    page: Page,
    scrapers: Vec<Scraper>,
    accept_after: Option<Instant>,
}

impl Scraping {
    fn run(mut self) {
        loop {
            let now = Instant::now();
            self.accept_after = self.accept_after.filter(|after| *after > now);
            let interest = if self.accept_after.is_none() { PollFlags::IN } else { PollFlags::empty() };
            let mut fds =
                vec![PollFd::new(&self.stopped, PollFlags::IN), PollFd::new(&self.listener, interest)];
            fds.extend(self.scrapers.iter().map(|one| PollFd::from_borrowed_fd(one.fd(), one.waits_for())));
            let until = self.scrapers.iter().map(|one| one.deadline).chain(self.accept_after).min();
            let pause = until.and_then(|at| Timespec::try_from(at.saturating_duration_since(now)).ok());
            if let Err(error) = poll(&mut fds, pause.as_ref())
                && error != Errno::INTR
            {
                return warn!("Metrics cannot be scraped any more: cannot wait for clients: {error}");
            }
            let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            if ready[0] {
                return;
            }
            let (now, mut ready_scrapers) = (Instant::now(), ready[2..].iter());
            for mut scraper in std::mem::take(&mut self.scrapers) {
                let is_ready = ready_scrapers.next() == Some(&true);
                if now < scraper.deadline && (!is_ready || scraper.advance(&mut self.page)) {
                    self.scrapers.push(scraper);
                }
            }
            if ready[1] {
                self.accept(now);
            }
        }
    }

    fn accept(&mut self, now: Instant) {
        match self.listener.accept() {
            Ok(Some(socket)) => {
                if self.scrapers.len() >= MAX_SCRAPERS {
                    self.scrapers.remove(0);
                }
                self.scrapers.push(Scraper::new(socket, now));
            }
            Ok(None) => {}
            Err(error) => {
                self.accept_after = Some(now + ACCEPT_PAUSE);
                debug!("Cannot accept a scraper: {error}; raise the limit of open files");
            }
        }
    }
}

/// An answer, and how many bytes of it are its head.
#[derive(Clone)]
struct Answer {
    text: Rc<String>,
    head_bytes: usize,
}

impl Answer {
    fn new(status: &str, kind: &str, body: &str) -> Answer {
        let mut text = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        let head_bytes = text.len();
        text.push_str(body);
        Answer { text: Rc::new(text), head_bytes }
    }

    fn refusal(status: &str, reason: &str) -> Answer {
        Answer::new(status, PLAIN, &format!("{reason}\n"))
    }
}

fn too_long() -> Answer {
    Answer::refusal("431 Request Header Fields Too Large", "The request is too long")
}

/// What is given out, and until when.
struct Page {
    host: Host,
    made: Option<(Answer, Instant)>,
}

impl Page {
    fn get(&mut self) -> Answer {
        let begin = Instant::now();
        if let Some((answer, until)) = &self.made
            && begin < *until
        {
            return answer.clone();
        }
        let answer = match self.host.status() {
            Ok(status) => {
                let mut text = String::new();
                match metrics::write(&mut text, status) {
                    Ok(()) => Answer::new("200 OK", OPEN_METRICS, &text),
                    Err(error) => Answer::refusal("500 Internal Server Error", &error.to_string()),
                }
            }
            Err(error) => Answer::refusal("503 Service Unavailable", &error),
        };
        let end = Instant::now();
        debug!("Made a page of {} bytes for scrapers in {} us", answer.text.len(), (end - begin).as_micros());
        self.made = Some((answer.clone(), end + PAGE_LIFE.max((end - begin) * PAGE_LIFE_FACTOR)));
        answer
    }
}

/// One connection.
struct Scraper {
    socket: OwnedFd,
    deadline: Instant,
    input: Vec<u8>,
    /// What is sent, and its length.
    answer: Option<(Answer, usize)>,
    sent: usize,
}

impl Scraper {
    fn new(socket: OwnedFd, now: Instant) -> Scraper {
        Scraper { socket, deadline: now + SCRAPER_LIMIT, input: Vec::new(), answer: None, sent: 0 }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn is_sent(&self) -> bool {
        self.answer.as_ref().is_some_and(|(_, length)| self.sent == *length)
    }

    fn waits_for(&self) -> PollFlags {
        if self.answer.is_some() && !self.is_sent() { PollFlags::OUT } else { PollFlags::IN }
    }

    /// Goes on as far as possible without waiting. Whether it is to be kept.
    fn advance(&mut self, page: &mut Page) -> bool {
        if self.is_sent() {
            return self.discard();
        }
        if self.answer.is_none() {
            match self.receive() {
                Ok(true) => {}
                Ok(false) => return true,
                Err(()) => return false,
            }
            self.answer = understand(&self.input, page);
        }
        match &self.answer {
            Some((answer, length)) => self.send(&answer.text.clone().as_bytes()[..*length]),
            None => true,
        }
    }

    /// Whether something came in.
    fn receive(&mut self) -> Result<bool, ()> {
        let mut buf = [0; 2048];
        match recv(&self.socket, &mut buf[..], RecvFlags::DONTWAIT) {
            Ok((0, _)) => Err(()),
            Ok((length, _)) => {
                self.input.extend_from_slice(&buf[..length]);
                Ok(true)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(_) => Err(()),
        }
    }

    fn send(&mut self, answer: &[u8]) -> bool {
        while self.sent < answer.len() {
            match send(&self.socket, &answer[self.sent..], SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(length) => self.sent += length,
                Err(Errno::AGAIN | Errno::INTR) => return true,
                Err(_) => return false,
            }
        }
        // Closed at once, what the client sent and nobody read would take the answer with it.
        shutdown(&self.socket, Shutdown::Write).is_ok()
    }

    /// Reads to the end of what the client sends.
    fn discard(&mut self) -> bool {
        self.input.clear();
        self.receive().is_ok()
    }
}

/// The answer to a request, and how much of it is sent; `None` while the request is not complete.
fn understand(input: &[u8], page: &mut Page) -> Option<(Answer, usize)> {
    let whole = |answer: Answer| Some((answer.clone(), answer.text.len()));
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(input) {
        _ if input.len() > MAX_REQUEST_BYTES => return whole(too_long()),
        Err(httparse::Error::TooManyHeaders) => return whole(too_long()),
        Ok(httparse::Status::Partial) => return None,
        Ok(httparse::Status::Complete(_)) => {}
        Err(error) => {
            let reason = format!("This is not an HTTP request: {error}");
            return whole(Answer::refusal("400 Bad Request", &reason));
        }
    }
    let path = request.path.unwrap_or_default();
    let is_head = match request.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return whole(Answer::refusal("405 Method Not Allowed", "Only GET and HEAD are known here")),
    };
    if path.split('?').next() != Some(PATH) {
        let reason = format!("There is nothing here; metrics are at {PATH}");
        return whole(Answer::refusal("404 Not Found", &reason));
    }
    let answer = page.get();
    let length = if is_head { answer.head_bytes } else { answer.text.len() };
    Some((answer, length))
}
