//! Completions on their way out: those ready, and those held back until a modelled device would have
//! finished. It must not know who produced them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use rustix::io::Errno;

use crate::error::classify;
use crate::op::{Done, Payload};

struct Held {
    due: Instant,
    /// Keeps completions that are due together in the order of their arrival.
    sequence: u64,
    done: Done,
}

impl PartialEq for Held {
    fn eq(&self, other: &Held) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Held {}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Held) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Held {
    fn cmp(&self, other: &Held) -> std::cmp::Ordering {
        (self.due, self.sequence).cmp(&(other.due, other.sequence))
    }
}

#[derive(Default)]
pub(crate) struct Outbox {
    ready: Vec<Done>,
    held: BinaryHeap<Reverse<Held>>,
    sequence: u64,
}

impl Outbox {
    /// An operation ended. It is handed out at once, or at `due`.
    pub fn finish(
        &mut self,
        token: u64,
        due: Option<Instant>,
        result: Result<usize, Errno>,
        payload: Payload,
    ) {
        let os_error = result.err().map(Errno::raw_os_error);
        let done = Done { token, result: result.map_err(classify), os_error, payload };
        match due {
            None => self.ready.push(done),
            Some(due) => {
                self.sequence += 1;
                self.held.push(Reverse(Held { due, sequence: self.sequence, done }));
            }
        }
    }

    /// Moves everything that is ready or due into `done`.
    pub fn hand_out(&mut self, done: &mut Vec<Done>) {
        done.append(&mut self.ready);
        if self.held.is_empty() {
            return;
        }
        let now = Instant::now();
        while self.held.peek().is_some_and(|Reverse(held)| held.due <= now) {
            done.extend(self.held.pop().map(|Reverse(held)| held.done));
        }
    }

    /// When the next completion held back is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.held.peek().map(|Reverse(held)| held.due)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn held_completions_come_out_in_the_order_they_are_due() {
        let mut outbox = Outbox::default();
        let now = Instant::now();
        let past = now.checked_sub(Duration::from_millis(10)).unwrap();
        outbox.finish(1, Some(now + Duration::from_secs(3600)), Ok(0), Payload::None);
        outbox.finish(2, Some(now), Ok(0), Payload::None);
        outbox.finish(3, Some(past), Ok(0), Payload::None);
        outbox.finish(4, Some(past), Err(Errno::IO), Payload::None);
        outbox.finish(5, None, Ok(0), Payload::None);
        let mut done = Vec::new();
        outbox.hand_out(&mut done);
        assert_eq!(done.iter().map(|done| done.token).collect::<Vec<_>>(), [5, 3, 4, 2]);
        assert_eq!(done[2].os_error, Some(Errno::IO.raw_os_error()));
        assert_eq!(outbox.next_due(), Some(now + Duration::from_secs(3600)));
    }
}
