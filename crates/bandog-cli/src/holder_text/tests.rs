use std::time::{Duration, SystemTime};

use bandog::{Fence, Holder, Key};

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
    row.tell(&[ann]);
    assert_eq!(holder(&row).unwrap(), "deploy\\u{1b}[31m.sh (process 4711 on ci-7), since 2026-09-21T14:26:40Z");
    row.holders[0].fence = Some(Fence::new(7));
    assert_eq!(holder(&row).unwrap(), "deploy\\u{1b}[31m.sh (process 4711 on ci-7)");
}

#[test]
fn the_short_form_has_the_command_and_the_time_of_day() {
    let key = Key::new("x").unwrap();
    let brief = |fence: Fence| {
        let member = Member { program: "bandog lock -- ./deploy".into(), ..ann() };
        let mut row = held(&key, &format!("{}:7", member.id), Some(fence));
        row.tell(&[member]);
        brief_holder(&row).unwrap()
    };
    assert_eq!(brief(GRANTED), "./deploy (4711 on ci-7) since 2026-09-21T14:26:40Z");
    let now = SystemTime::now();
    let rfc = humantime::format_rfc3339_seconds(now).to_string();
    let micros = now.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros();
    // If midnight passes between the two reads of the clock, the text contains the date. So this assert accepts the
    // time of day with or without the date.
    assert!(rfc.ends_with(brief(Fence::new(micros.try_into().unwrap())).rsplit_once(' ').unwrap().1));
    assert_eq!(brief_holder(&held(&key, "somebody", None)).unwrap(), "somebody");
}

#[test]
fn an_unregistered_holder_is_described_by_its_owner() {
    let key = Key::new("x").unwrap();
    let text_of = |owner: &str| holder(&held(&key, owner, None)).unwrap();
    let java = "957c1da6-54c9-4017-93c7-a4ef987df61c:57";
    assert_eq!(text_of(java), format!("a Java client, {java}"));
    let ours = format!("{}:3", ClientId::random());
    assert_eq!(text_of(&ours), format!("a bandog client, {ours}"));
    for odd in ["somebody", "957c1da6:4", "957c1da6-54c9-7017-93c7-a4ef987df61c:57", "a\u{7}b"] {
        assert_eq!(text_of(odd), escaped(odd));
    }
    assert_eq!(holder(&Row::free(&key)), None);
}

#[test]
fn json_has_the_start_as_rfc_3339() {
    let json = serde_json::to_value(bandog_page::MemberJson::from(&ann())).unwrap();
    let want = serde_json::json!({
        "host": "ci-7", "pid": 4711, "program": "deploy\u{1b}[31m.sh", "since": "2025-11-20T12:30:01Z"
    });
    assert_eq!(json, want);
}
