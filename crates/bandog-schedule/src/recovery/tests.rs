use super::*;
use crate::{Job, Run};

/// Start of each test.
const T0: UnixMs = 1_800_000_000_000;

fn v(number: u64) -> Version {
    Version::new(number).unwrap()
}

/// A job whose record was created at T0.
fn state(entry: &JobEntry, era: &str) -> JobState {
    JobState::create(&entry.definition.policy, T0, None, era)
}

/// A node's entry of a job, with version 5 of its record.
fn entry(era: &str) -> JobEntry {
    let definition = Job::fixed_rate("job", std::time::Duration::from_secs(1)).run(async |_: Run| ());
    let mut entry = JobEntry::new(definition.prepare(None).unwrap());
    (entry.is_shared, entry.version) = (true, Some(v(5)));
    entry.state = Some(Box::new(state(&entry, era)));
    entry
}

fn era_of(entry: &JobEntry) -> &str {
    &entry.state.as_ref().unwrap().born.as_ref().unwrap().era
}

fn found(version: u64, state: JobState) -> RecordRead {
    RecordRead::Found(v(version), Box::new(state))
}

/// The version of the node's copy of a lost record, and whether this version is later than the version in the store.
/// None if the node has no such copy.
fn remembers(entry: &JobEntry) -> Option<(u64, bool)> {
    match entry.events.first() {
        Some(Event::RecordLost(known)) => Some((known.version.get(), known.is_later)),
        Some(_) | None => None,
    }
}

#[test]
fn a_record_that_is_missing_in_the_same_era_was_forgotten() {
    let mut entry = entry("a");
    assert_eq!(recover(&mut entry, RecordRead::Missing, Some("a"), T0 + 9), Recovered::Forgotten);
    assert_eq!((entry.version, remembers(&entry)), (None, None));
    assert_eq!(entry.state.as_ref().unwrap().watermark, T0 + 8, "the job is new again");
}

#[test]
fn a_record_that_is_missing_in_another_era_was_lost() {
    let mut entry = entry("a");
    assert_eq!(recover(&mut entry, RecordRead::Missing, Some("b"), T0 + 9), Recovered::Lost);
    assert_eq!((entry.version, remembers(&entry), era_of(&entry)), (None, Some((5, true)), "b"));
    let watermark = entry.state.as_ref().unwrap().watermark;
    assert_eq!(watermark, T0 + 9 + MAX_EARLY_MS, "other nodes may have claimed ticks until then");
}

#[test]
fn a_missing_record_means_nothing_without_an_era_and_while_a_swap_is_in_flight() {
    let mut unknown = entry("a");
    assert_eq!(recover(&mut unknown, RecordRead::Missing, None, T0), Recovered::Nothing);
    let mut pending = entry("a");
    let (next, plan) = (state(&pending, "a"), crate::plan::Plan::default());
    pending.pending = Some(Box::new(crate::dispatch::PendingSwap { next, plan, events: 0 }));
    assert_eq!(recover(&mut pending, RecordRead::Missing, Some("b"), T0), Recovered::Nothing);
    for entry in [unknown, pending] {
        assert_eq!((entry.version, remembers(&entry)), (Some(v(5)), None));
    }
}

#[test]
fn a_record_that_was_never_written_only_takes_the_era() {
    let mut entry = entry("a");
    entry.version = None;
    assert_eq!(recover(&mut entry, RecordRead::Missing, Some("b"), T0), Recovered::Nothing);
    assert_eq!(era_of(&entry), "b");
}

#[test]
fn a_later_version_is_current() {
    let mut entry = entry("a");
    let next = JobState { watermark: T0 + 5000, ..state(&entry, "a") };
    assert_eq!(recover(&mut entry, found(6, next.clone()), Some("a"), T0), Recovered::Current);
    assert_eq!((entry.version, entry.state.as_deref(), remembers(&entry)), (Some(v(6)), Some(&next), None));
}

#[test]
fn an_earlier_version_fell_back() {
    let mut entry = entry("a");
    let earlier = state(&entry, "a");
    assert_eq!(recover(&mut entry, found(4, earlier), Some("a"), T0), Recovered::Behind { is_rollback: true });
    assert_eq!((entry.version, remembers(&entry)), (Some(v(4)), Some((5, true))));
    // Then another node writes a later version.
    let later = JobState { watermark: T0 + 5000, ..state(&entry, "a") };
    assert_eq!(recover(&mut entry, found(9, later), Some("a"), T0), Recovered::Behind { is_rollback: false });
    assert_eq!(remembers(&entry), Some((5, false)), "the record is now later than the known copy");
}

#[test]
fn a_record_that_another_node_created_after_a_loss_is_no_rollback() {
    let mut entry = entry("a");
    let mut created = state(&entry, "b");
    created.born.iter_mut().for_each(|born| born.at = T0 + 9000);
    assert_eq!(recover(&mut entry, found(1, created), Some("b"), T0), Recovered::Behind { is_rollback: false });
    assert_eq!(remembers(&entry), Some((5, true)));
}

#[test]
fn a_record_that_is_read_during_a_swap_does_not_hide_the_loss() {
    let mut entry = entry("a");
    assert_eq!(recover(&mut entry, RecordRead::Unusable, Some("b"), T0), Recovered::Nothing);
    let mut created = state(&entry, "b");
    created.born.iter_mut().for_each(|born| born.at = T0 + 9000);
    assert_eq!(recover(&mut entry, found(1, created), None, T0), Recovered::Behind { is_rollback: false });
}

#[test]
fn a_tick_that_ran_unclaimed_is_no_sign_of_a_rollback() {
    let mut entry = entry("a");
    let stored = state(&entry, "a");
    entry.state.iter_mut().for_each(|state| state.watermark = T0 + 5000);
    entry.events.push(Event::RanUnclaimed(T0 + 5000));
    assert_eq!(recover(&mut entry, found(6, stored), Some("a"), T0), Recovered::Behind { is_rollback: false });
}

#[test]
fn a_board_that_was_lost_alone_gives_the_record_its_new_era() {
    let mut entry = entry("a");
    assert_eq!(recover(&mut entry, RecordRead::Unchanged, Some("b"), T0), Recovered::Nothing);
    assert_eq!(era_of(&entry), "b");
    let next = state(&entry, "b");
    assert_eq!(recover(&mut entry, found(6, next), Some("c"), T0), Recovered::Current);
    assert_eq!(era_of(&entry), "c");
    assert_eq!(recover(&mut entry, RecordRead::Unchanged, None, T0), Recovered::Nothing);
    assert_eq!(era_of(&entry), "c");
}
