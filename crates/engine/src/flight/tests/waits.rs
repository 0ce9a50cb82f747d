//! What a request waits for while other operations are in front of it.

use super::*;

impl Model {
    /// Whoever has not been answered waits for something, but for one whose turn is after what follows an answer.
    pub(super) fn check_waits(&self) {
        let is_at_head = self.flight.access().is_some();
        if !is_at_head && !self.accesses.is_empty() && !self.flight.queue.is_empty() {
            assert!(self.flight.waits_for().is_some(), "{self:#?}");
        }
    }
}

#[test]
fn a_write_waits_for_what_its_own_block_is_written_back_with() {
    let mut model = Model::new(0, false);
    for event in [
        ModelEvent::Submit(Ask::WriteBack { partial: false, frame: false }),
        ModelEvent::Device(true),
        ModelEvent::Submit(Ask::WriteAround(Cover::Whole)),
    ] {
        assert!(model.event(event), "{model:#?}");
    }
    let mut causes = Vec::new();
    for _ in 0..20 {
        let cause = model.flight.waits_for().map(|(_, cause)| cause);
        if causes.last() != Some(&cause) {
            causes.push(cause);
        }
        let next = [ModelEvent::Device(true), ModelEvent::Commit, ModelEvent::Flush];
        if !next.into_iter().any(|event| model.event(event)) {
            break;
        }
    }
    // The record of the dirty copy, its write-back, the record that it is clean, and then the disk.
    let journal = Some(WaitedFor::Journal);
    let disk = Some(WaitedFor::BackingWrite);
    assert_eq!(causes, [journal, disk, journal, disk, None], "{model:#?}");
}
