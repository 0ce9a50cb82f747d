//! Volumes that are added, removed and renamed while others are served (guarantees 1, 2, 4, 6 and 7 of `docs/design.md`).

use lode_engine::{MembershipEnd, MembershipRefusal, SpaceAnswer, SpaceBroker, SpaceRequest};
use lode_format::VolumeTag;
use lode_sim::scenario::{machine, plan, run_neighbours};
use lode_sim::{Access, Crash, Faults, Machine, Plan, Rng, RunCounts, SimDisk, World};
use lode_store::{DirectoryOutput, MembershipChange, Store, StoreView, SyncDevice};

/// Three volumes on one SSD that come and go, whose shares, names and schemes change, with each scheme in turn.
fn run_all(change: impl Fn(Plan) -> Plan) -> RunCounts {
    let plan_of = |machine, seed| {
        let plan = plan(vec![machine], seed);
        change(Plan { share_changes: 1, membership_changes: 1, scheme_switches: 1, requests: 300, ..plan })
    };
    let sum = run_neighbours(3, 9 << 20, plan_of);
    assert!(sum.gone > 50 && sum.came > 20 && sum.renamed > 20 && sum.switches > 100, "{sum:?}");
    sum
}

#[test]
fn g4_g6_volumes_come_and_go_between_stops() {
    let tally = run_all(|plan| Plan { crash: Crash::Stop, ..plan });
    assert!(tally.failed_writes == 0, "{tally:?}");
}

#[test]
fn g2_g4_power_cuts_while_volumes_come_and_go() {
    let tally = run_all(|plan| Plan { crash: Crash::Power, failed_starts: 2, ..plan });
    assert!(tally.failed_writes == 0, "{tally:?}");
}

#[test]
fn g4_g10_kills_while_volumes_come_and_go() {
    let tally = run_all(|plan| Plan { crash: Crash::Kill, failed_starts: 2, ..plan });
    assert!(tally.failed_writes == 0, "{tally:?}");
}

#[test]
fn g4_g7_devices_that_fail_while_volumes_come_and_go() {
    let faults = Faults {
        ssd_write_errors: 2,
        ssd_metadata_errors: 1,
        ssd_flush_errors: 1,
        backing_write_errors: 2,
        ..Faults::default()
    };
    let tally = run_all(|plan| Plan { faults, crash: Crash::Any, ..plan });
    assert!(tally.failed_writes > 20, "{tally:?}");
}

/// A directory with one volume, and a change of its own on its way.
struct Cache {
    ssd: SimDisk,
    broker: SpaceBroker,
    machine: Machine,
    tag: VolumeTag,
}

impl Cache {
    fn new() -> Cache {
        let machine = machine("lru", &["write_policy=wb"], lode_policy::Quota::new(0, 60));
        let machine = Machine { ssd_bytes: 6 << 20, ..machine };
        let mut ssd = World::formatted_ssd(&machine).unwrap();
        let mut store = Store::open(&mut ssd).unwrap();
        let tag = store.attach(&mut ssd, &machine.spec()).unwrap().tag();
        let broker = SpaceBroker::new(0, Some(store.into_directory()));
        Cache { ssd, broker, machine, tag }
    }

    /// Carries a change out as far as the SSD does not fail.
    fn change_and_fail(&mut self, change: MembershipChange) -> Option<MembershipEnd> {
        let number = self.broker.change_membership(change).unwrap();
        while let Some(output) = self.broker.next_output() {
            let done = match output {
                DirectoryOutput::Write { offset_bytes, buf } => self.ssd.write(offset_bytes, buf.as_slice()),
                DirectoryOutput::Flush => SyncDevice::flush(&mut self.ssd),
            };
            self.broker.done(done.is_ok());
        }
        self.broker.membership_ended(number)
    }

    /// Carries a change out, and has each state in between looked at after a power cut.
    fn change(&mut self, change: MembershipChange, mut look: impl FnMut(SimDisk)) -> Option<VolumeTag> {
        let number = self.broker.change_membership(change).unwrap();
        while let Some(output) = self.broker.next_output() {
            match output {
                DirectoryOutput::Write { offset_bytes, buf } => self.ssd.put(offset_bytes, buf.as_slice()),
                DirectoryOutput::Flush => self.ssd.settle(self.ssd.flush_mark()),
            }
            (0..4).for_each(|seed| look(self.ssd.after_power_cut(&mut Rng::new(seed))));
            self.broker.done(true);
        }
        match self.broker.membership_ended(number)? {
            MembershipEnd::Done(volume) => Some(volume),
            MembershipEnd::Refused(_) | MembershipEnd::Unknown => None,
        }
    }
}

/// The N-th write or flush of each change fails, and nobody knows what came of it before the next start.
#[test]
fn g2_g4_g7_every_write_and_flush_of_a_change_fails() {
    let create = |name: &str| MembershipChange::Create {
        name: name.to_owned(),
        backing_bytes: 1 << 20,
        extents: 1,
        ready_extents: 1,
    };
    let (mut failed, mut seen) = (0, [0; 2]);
    for (change, before, after) in [
        (0, vec!["new", "vm"], vec!["new", "third", "vm"]),
        (1, vec!["new", "vm"], vec!["other", "vm"]),
        (2, vec!["new", "vm"], vec!["vm"]),
    ] {
        for access in [Access::Write, Access::Flush] {
            for (n, power_cut) in (0..).flat_map(|n| [(n, false), (n, true)]) {
                let mut cache = Cache::new();
                let made = cache.change(create("new"), |_| ()).unwrap();
                cache.ssd.fail_nth = Some((access, n));
                let ended = cache.change_and_fail(match change {
                    0 => create("third"),
                    1 => MembershipChange::Rename(made, "other".to_owned()),
                    _ => MembershipChange::Remove(made),
                });
                if cache.ssd.fail_nth.take().is_some() {
                    assert!(matches!(ended, Some(MembershipEnd::Done(_))) && n > 0);
                    break;
                }
                assert_eq!(ended, Some(MembershipEnd::Unknown));
                failed += 1;
                let ssd = match power_cut {
                    true => cache.ssd.after_power_cut(&mut Rng::new(n)),
                    false => cache.ssd.clone(),
                };
                let found = names(ssd, &cache.machine);
                assert!(found == before || found == after, "{access:?} {n} of change {change}: {found:?}");
                seen[usize::from(found == after)] += 1;
            }
        }
    }
    assert!(failed > 30 && seen.iter().all(|seen| *seen > 5), "{failed} {seen:?}");
}

/// The names of a cache's volumes, after a start that attaches all of them.
fn names(mut ssd: SimDisk, machine: &Machine) -> Vec<String> {
    let view = StoreView::read(&mut ssd).unwrap();
    let mut names: Vec<String> = view.volumes().map(|volume| volume.name).collect();
    names.sort();
    let mut store = Store::begin(&mut ssd, view).unwrap();
    for name in &names {
        let mut spec = machine.spec();
        spec.name.clone_from(name);
        store.attach(&mut ssd, &spec).unwrap();
    }
    names
}

#[test]
fn g2_g4_a_power_cut_after_every_write_finds_the_volumes_of_before_or_after() {
    let mut cache = Cache::new();
    let machine = cache.machine.clone();
    let all = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let mut seen = [0; 2];
    let mut check = |before: &[&str], after: &[&str], found: SimDisk| {
        let found = names(found, &machine);
        assert!(found == all(before) || found == all(after), "{found:?}");
        seen[usize::from(found == all(after))] += 1;
    };
    let create = |name: &str| MembershipChange::Create {
        name: name.to_owned(),
        backing_bytes: 1 << 20,
        extents: 1,
        ready_extents: 1,
    };
    let made = cache.change(create("new"), |ssd| check(&["vm"], &["new", "vm"], ssd)).unwrap();
    let rename = MembershipChange::Rename(made, "other".to_owned());
    assert_eq!(cache.change(rename, |ssd| check(&["new", "vm"], &["other", "vm"], ssd)), Some(made));
    let gone = cache.change(MembershipChange::Remove(made), |ssd| check(&["other", "vm"], &["vm"], ssd));
    assert_eq!(gone, Some(made));
    // The number is free again, and the tag is not.
    let again = cache.change(create("other"), |ssd| check(&["vm"], &["other", "vm"], ssd)).unwrap();
    assert!(again != made && again != cache.tag);
    assert!(seen.iter().all(|seen| *seen > 20), "{seen:?}");
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut cache = Cache::new();
    let machine = cache.machine.clone();
    let create = |name: &str, extents| MembershipChange::Create {
        name: name.to_owned(),
        backing_bytes: 1 << 20,
        extents,
        ready_extents: 1,
    };
    for (change, said) in [
        (create("vm", 1), "holds a volume 'vm' already"),
        (create("large", 100), "needs 100 MiB more SSD space"),
        (create("", 1), "has 1 to"),
        (MembershipChange::Rename(cache.tag, "vm".to_owned()), "already"),
        (MembershipChange::Remove(VolumeTag(1)), "no volume"),
    ] {
        let number = cache.broker.change_membership(change.clone()).unwrap();
        assert!(cache.broker.next_output().is_none(), "{change:?}");
        let Some(MembershipEnd::Refused(error)) = cache.broker.membership_ended(number) else {
            panic!("{change:?} is not refused")
        };
        assert!(error.to_string().contains(said), "{change:?}: {error}");
    }
    assert_eq!(names(cache.ssd.clone(), &machine), ["vm"]);
    assert_eq!(cache.broker.free().1, 4, "nothing stays lent");
}

fn create(name: &str) -> MembershipChange {
    MembershipChange::Create { name: name.to_owned(), backing_bytes: 1 << 20, extents: 1, ready_extents: 1 }
}

#[test]
fn g7_a_change_whose_end_nobody_knows_is_the_last_one() {
    let mut cache = Cache::new();
    let number = cache.broker.change_membership(create("new")).unwrap();
    let busy = Err(MembershipRefusal::Busy);
    assert_eq!(cache.broker.change_membership(create("other")), busy, "it is the host's turn");
    assert!(!cache.broker.cancel_membership(number), "it has begun");
    assert!(cache.broker.next_output().is_some());
    cache.broker.done(false);
    assert_eq!(cache.broker.membership_ended(number + 1), None);
    assert_eq!(cache.broker.membership_ended(number), Some(MembershipEnd::Unknown));
    assert_eq!(cache.broker.change_membership(create("other")), Err(MembershipRefusal::Failed));
    assert!(cache.broker.next_output().is_none(), "nothing more is written there");
}

#[test]
fn g7_a_change_that_waits_when_the_directory_fails_is_refused() {
    let mut cache = Cache::new();
    cache.broker.join(0, Some(cache.tag), 0);
    cache.broker.ask(0, SpaceRequest::WantTurn);
    let number = cache.broker.change_membership(create("new")).unwrap();
    assert_eq!(cache.broker.membership_ended(number), None, "it is the volume's turn");
    cache.broker.done(false);
    assert!(matches!(cache.broker.membership_ended(number), Some(MembershipEnd::Refused(_))));
}

#[test]
fn an_end_that_nobody_took_is_not_that_of_the_next_change() {
    let mut cache = Cache::new();
    let taken = MembershipChange::Rename(cache.tag, "vm".to_owned());
    let first = cache.broker.change_membership(taken).unwrap();
    let made = cache.change(create("new"), |_| ()).unwrap();
    assert_ne!(made, cache.tag);
    assert_eq!(cache.broker.membership_ended(first), None, "it is forgotten");
}

#[test]
fn one_that_comes_asks_for_spares_and_waits_for_them() {
    let mut cache = Cache::new();
    cache.broker.join(0, Some(cache.tag), 0);
    let free = cache.broker.free().1;
    cache.broker.ask(0, SpaceRequest::WantExtents(free));
    let Some((0, SpaceAnswer::Extents(lent))) = cache.broker.next_answer() else { panic!("all are lent") };
    let number = cache.broker.change_membership(create("new")).unwrap();
    assert_eq!(cache.broker.next_answer(), Some((0, SpaceAnswer::GiveUpSpares)));
    let why = cache.broker.membership_waits_for(number).unwrap().to_string();
    assert!(why.contains("'new' needs 1 MiB more SSD space and 0 MiB are free"), "{why}");
    // What comes free is for it, and not for who wants more.
    cache.broker.ask(0, SpaceRequest::WantExtents(1));
    assert!(cache.broker.next_output().is_none());
    cache.broker.ask(0, SpaceRequest::ReturnExtents(lent[..1].to_vec()));
    assert!(cache.broker.next_answer().is_none() && cache.broker.next_output().is_some());
    // One that is given up leaves what it waited for to others.
    let mut cache = Cache::new();
    cache.broker.join(0, Some(cache.tag), 0);
    cache.broker.ask(0, SpaceRequest::WantExtents(free));
    let number = cache.broker.change_membership(create("new")).unwrap();
    assert!(cache.broker.cancel_membership(number) && !cache.broker.cancel_membership(number));
    assert!(cache.broker.membership_waits_for(number).is_none() && cache.broker.next_output().is_none());
}
