use std::time::{Duration, SystemTime};

use bandog::{Fence, Key, admin::Holder};

use super::*;

/// The fence of a grant on 21 September 2026.
const GRANTED: Fence = Fence::new(1_790_000_800_000_000);

fn ann() -> Member {
    Member {
        id: ClientId::random(),
        host: "ci-7".into(),
        pid: 4711,
        program: "deploy\u{1b}[31m.sh".into(),
        since: SystemTime::UNIX_EPOCH + Duration::from_millis(1_763_641_801_250),
        prefix: String::new(),
        waits: Vec::new(),
        blocked: bandog::backend::BlockedCalls::default(),
    }
}

fn held(key: &Key, owner: &str, fence: Option<Fence>) -> Row {
    Row::held(key, None, Holder { fence, ..Holder::new(owner) })
}

#[test]
fn a_registered_holder_is_named() {
    let key = Key::new("x").unwrap();
    let ann = ann();
    let mut row = held(&key, &format!("{}:7", ann.id), Some(GRANTED));
    row.add_members(&[ann]);
    assert_eq!(holders(&row).unwrap(), "deploy\\u{1b}[31m.sh (process 4711 on ci-7), since 2026-09-21T14:26:40Z");
    row.holders[0].fence = Some(Fence::new(7));
    assert_eq!(holders(&row).unwrap(), "deploy\\u{1b}[31m.sh (process 4711 on ci-7)");
}

#[test]
fn the_short_form_has_the_command_and_the_time_of_day() {
    let key = Key::new("x").unwrap();
    let brief = |fence: Fence| {
        let member = Member { program: "bandog lock -- ./deploy".into(), ..ann() };
        let mut row = held(&key, &format!("{}:7", member.id), Some(fence));
        row.add_members(&[member]);
        brief_holders(&row).unwrap()
    };
    assert_eq!(brief(GRANTED), "./deploy (4711 on ci-7) since 2026-09-21T14:26:40Z");
    let now = SystemTime::now();
    let rfc = humantime::format_rfc3339_seconds(now).to_string();
    let micros = now.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros();
    // If midnight passes between the two reads of the clock, the text contains the date. So this assert accepts the
    // time of day with or without the date.
    assert!(rfc.ends_with(brief(Fence::new(micros.try_into().unwrap())).rsplit_once(' ').unwrap().1));
    assert_eq!(brief_holders(&held(&key, "somebody", None)).unwrap(), "somebody");
}

#[test]
fn an_unregistered_holder_is_described_by_its_owner() {
    let key = Key::new("x").unwrap();
    let text_of = |owner: &str| holders(&held(&key, owner, None)).unwrap();
    let java = "957c1da6-54c9-4017-93c7-a4ef987df61c:57";
    assert_eq!(text_of(java), format!("a Java client, {java}"));
    let ours = format!("{}:3", ClientId::random());
    assert_eq!(text_of(&ours), format!("a bandog client, {ours}"));
    for odd in ["somebody", "957c1da6:4", "957c1da6-54c9-7017-93c7-a4ef987df61c:57", "a\u{7}b"] {
        assert_eq!(text_of(odd), escaped(odd));
    }
    assert_eq!(holders(&Row::free(&key)), None);
}

#[test]
fn json_has_the_start_as_rfc_3339() {
    let json = serde_json::to_value(bandog_page::MemberJson::from(&ann())).unwrap();
    let want = serde_json::json!({
        "host": "ci-7", "pid": 4711, "program": "deploy\u{1b}[31m.sh", "since": "2025-11-20T12:30:01Z"
    });
    assert_eq!(json, want);
}

#[test]
fn holders_of_a_shared_lock_are_counted() {
    let key = Key::new("x").unwrap();
    let with = |kind: Kind, number: usize| {
        let holder = Holder { kind: Some(kind), ..Holder::new("somebody") };
        Row { holders: vec![holder; number], ..Row::free(&key) }
    };
    let [take, of] = [2, 5].map(|number| std::num::NonZeroU32::new(number).unwrap());
    let texts = [(Kind::Read, 3), (Kind::Write, 1), (Kind::Permits { take, of }, 2), (Kind::Fair, 1)];
    assert_eq!(
        texts.map(|(kind, number)| holders(&with(kind, number)).unwrap()),
        [
            "somebody, as a reader, and 2 others",
            "somebody, as the writer",
            "somebody, 2 of 5 permits, and 1 other",
            "somebody"
        ]
    );
}

#[test]
fn a_waiter_that_is_not_registered_is_described_by_its_owner() {
    let java = "957c1da6-54c9-4017-93c7-a4ef987df61c:57";
    let free = Row::free(&Key::new("x").unwrap());
    let text = waiter(&free, Waiting { place: Some(java), member: None, before: &[] });
    assert_eq!(text, format!("a Java client, {java}: the lock is free at this moment"));
    let ann = ann();
    let text = waiter(&free, Waiting { place: Some(java), member: Some(&ann), before: &[] });
    assert!(text.starts_with("deploy") && text.contains("running since"), "{text}");
}
