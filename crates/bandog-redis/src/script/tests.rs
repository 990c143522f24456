use std::{collections::BTreeMap, num::NonZeroU32};

use bandog_core::{ClaimId, ClientId, Key, LatchAction, LatchOperation, Member, OFFER, OperationId, PLACE};
use bandog_redis_net::Script;
use redis::Arg;

use super::{
    args::millis,
    clients::REGISTER,
    latches::LATCH,
    mutex::{CLAIM, RELEASE, RENEW, claim, release, renew},
    *,
};

#[test]
fn every_header_documents_the_arguments_of_each_claim() {
    let of = |kind| ["a", "b", "c"].map(|key| Claim { kind, ..new_claim(key) });
    let steps = |claims: &[Claim; 3], step: fn(Claim) -> Step| claims.clone().map(step);
    let permits = Kind::Permits { take: NonZeroU32::MIN, of: NonZeroU32::MIN };
    let (mutexes, fair, writers, permits) = (of(Kind::Mutex), of(Kind::Fair), of(Kind::Write), of(permits));
    let (form, skew) = (ScriptForm::Hash, Duration::ZERO);
    let commands = [
        (&CLAIM, claim(&refs(&steps(&mutexes, Step::Claim)), form)),
        (&RELEASE, release(&refs(&steps(&mutexes, Step::Release)), form)),
        (&RENEW, renew(&mutexes.each_ref(), form)),
        (&fair::CLAIM, fair::claim(&refs(&steps(&fair, Step::Claim)), form)),
        (&fair::RELEASE, fair::release(&refs(&steps(&fair, Step::Release)), form)),
        (&fair::RENEW, fair::renew(&fair.each_ref(), form)),
        (&read_write::CLAIM, read_write::claim(&refs(&steps(&writers, Step::Claim)), form)),
        (&read_write::RELEASE, read_write::release(&refs(&steps(&writers, Step::Release)), form)),
        (&read_write::RENEW, read_write::renew(&writers.each_ref(), form)),
        (&semaphore::CLAIM, semaphore::claim(&refs(&steps(&permits, Step::Claim)), skew, form)),
        (&semaphore::RELEASE, semaphore::release(&refs(&steps(&permits, Step::Release)), form)),
        (&semaphore::RENEW, semaphore::renew(&permits.each_ref(), skew, form)),
        (&setnx::CLAIM, setnx::claim(&refs(&steps(&mutexes, Step::Claim)), form)),
        (&setnx::RELEASE, setnx::release(&refs(&steps(&mutexes, Step::Release)), form)),
        (&setnx::RENEW, setnx::renew(&mutexes.each_ref(), form)),
        (&plain::CLAIM, plain::claim(&refs(&steps(&permits, Step::Claim)), form)),
        (&plain::RELEASE, plain::release(&refs(&steps(&permits, Step::Release)), form)),
        (&plain::RENEW, plain::renew(&permits.each_ref(), form)),
    ];
    for (script, cmd) in commands {
        let (keys, args) = called_with(&cmd);
        for (word, number) in [("KEYS", keys), ("ARGV", args)] {
            let mut words = words(script, word);
            assert_eq!(words.pop().as_deref(), Some("..."), "{}", script.text(false));
            assert_eq!(words.len() * 3, number, "{word} of {}", script.text(false));
        }
        // A script that begins with common.lua names the numbers of its keys and arguments at its end, too.
        if let Some((_, call)) = script.text(false).rsplit_once("\nreturn each(") {
            let numbers = format!("{}, {}, ", keys / 3, args / 3);
            assert!(call.starts_with(&numbers), "expected {numbers:?} in\n{call}");
        }
        assert!(script.text(false).contains("\n-- Reply: "), "{}", script.text(false));
    }
}

#[test]
fn every_header_documents_the_arguments_of_a_call() {
    let key = Key::new("a").unwrap();
    let member = Member {
        id: ClientId::random(),
        host: "shop-1".into(),
        pid: 17,
        program: "till".into(),
        since: std::time::UNIX_EPOCH,
        prefix: "shop:".into(),
        waits: vec![key.clone()],
        blocked: bandog_core::BlockedCalls::default(),
    };
    let operation = LatchOperation {
        key: key.clone(),
        id: OperationId { client: member.id, number: 7 },
        action: LatchAction::Delete,
        remember: Duration::from_secs(30),
        forget_before: 0,
    };
    let form = ScriptForm::Hash;
    let calls = [
        (&REGISTER, register(&member, Duration::from_secs(30), form)),
        (&inspect::EVICT, single(inspect::evict(&key, form))),
        (&semaphore::LIMIT, single(semaphore::set_limit(&key, NonZeroU32::MIN, form))),
        (&setnx::SHOW, single(setnx::show("a", form))),
        (&setnx::EVICT, single(setnx::evict(&key, form))),
        (&plain::LIMIT, single(plain::set_limit(&key, NonZeroU32::MIN, form))),
        (&plain::SHOW, single(plain::show("a", form))),
        (&plain::EVICT, single(plain::evict(&key, form))),
        (&LATCH, change_latch(&operation, Format::default(), form)),
    ];
    for (script, pipe) in calls {
        let cmd = pipe.cmd_iter().next().unwrap();
        let number = (words(script, "KEYS").len(), words(script, "ARGV").len());
        assert_eq!(called_with(cmd), number, "{}", script.text(false));
        assert!(script.text(false).contains("\n-- Reply: "), "{}", script.text(false));
    }
}

/// On a cluster, all keys of a command must have the same hash tag.
#[test]
fn all_keys_of_a_lock_have_the_same_hash_tag() {
    let tag = |key: &str| {
        let inner = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
        inner.filter(|tag| !tag.is_empty()).unwrap_or(key).to_owned()
    };
    let permits = Kind::Permits { take: NonZeroU32::MIN, of: NonZeroU32::MIN };
    let default = Format::default();
    let setnx = Format { layout: Layout::Setnx, ..default };
    let plain = Format { semaphores: Semaphores::Plain, ..default };
    for name in ["orders", "a{b}c", "{tag}:a"] {
        for (format, kind) in [
            (default, Kind::Mutex),
            (default, Kind::Fair),
            (default, Kind::Read),
            (default, Kind::Write),
            (default, permits),
            (setnx, Kind::Mutex),
            (plain, permits),
        ] {
            let claim = Claim { kind, ..new_claim(name) };
            let claims = [claim.clone()];
            let mut pipes = vec![renewals(&claims, &[vec![0]], format, ScriptForm::Hash)];
            for step in [Step::Claim(claim.clone()), Step::Release(claim.clone())] {
                pipes.push(steps(&[step], &[vec![0]], format, ScriptForm::Hash));
            }
            pipes.push(show([name].into_iter(), format, ScriptForm::Hash));
            pipes.push(evict(&claim.key, format, ScriptForm::Hash));
            pipes.push(set_limit(&claim.key, NonZeroU32::MIN, format, ScriptForm::Hash));
            for cmd in pipes.iter().flat_map(Pipeline::cmd_iter) {
                let parts = texts(cmd);
                for key in &parts[3..3 + called_with(cmd).0] {
                    assert_eq!(tag(key), tag(name), "{kind}: {key}");
                }
            }
        }
    }
}

#[test]
fn the_parameters_of_a_script_have_the_order_of_its_header() {
    for (script, function) in [(&CLAIM, "claim"), (&RELEASE, "release")] {
        let mut names = words(script, "KEYS");
        names.pop();
        names.extend(words(script, "ARGV"));
        names.pop();
        let line = format!("local function {function}({})\n", names.join(", "));
        assert!(script.text(false).contains(&line), "expected {line:?} in\n{}", script.text(false));
    }
}

#[test]
fn rust_and_lua_agree_on_the_owner_and_the_duration_of_an_offer() {
    let offered = format!("'{}'", ClaimId::OFFERED);
    for script in [&CLAIM, &RELEASE, &inspect::EVICT, &setnx::CLAIM] {
        assert!(script.text(false).contains(&offered), "{}", script.text(false));
    }
    for script in [&RELEASE, &read_write::RELEASE, &setnx::RELEASE] {
        assert!(script.text(false).contains(&format!("OFFER_MS = {}\n", OFFER.as_millis())), "{}", script.text(false));
    }
    assert!(fair::CLAIM.text(false).contains(&format!("PLACE_MS = {}\n", PLACE.as_millis())));
}

#[test]
fn a_pass_is_a_claim_that_names_the_previous_owner() {
    let (from, to) = (new_claim("a"), new_claim("a"));
    let pass = [Step::Pass { from: Box::new(from.clone()), to: to.clone() }];
    let args = texts(&claim(&refs(&pass), ScriptForm::Hash));
    assert_eq!(args[3..], ["a", "redisson_lock_token:{a}", &to.id.to_string(), "30000", "64", &from.id.to_string()]);
    let starving = Claim { offers: true, ..to.clone() };
    let args = texts(&claim(&[&Step::Claim(starving)], ScriptForm::Hash));
    assert_eq!(args[8..], ["", "bandog:starving:{a}"]);
    let args = texts(&claim(&[&Step::Claim(to)], ScriptForm::Text));
    assert_eq!((args[0].as_str(), args[1].as_str(), args[8].as_str()), ("EVAL", CLAIM.text(false), ""));
}

#[test]
fn steps_of_different_keys_share_a_command_and_steps_of_the_same_key_do_not() {
    let kinds = [Kind::Mutex, Kind::Read, Kind::Fair, Kind::Write];
    let names = ["a", "b", "c", "d"];
    let mixed: Vec<Claim> = names.into_iter().zip(kinds).map(|(key, kind)| Claim { kind, ..new_claim(key) }).collect();
    assert_eq!(renewal_groups(&mixed, 2, Format::default()), [vec![0], vec![2], vec![1, 3]]);
    assert_eq!(groups_of(&mixed.into_iter().map(Step::Claim).collect::<Vec<_>>()), [vec![0], vec![2], vec![1, 3]]);

    let (a, b, c) = (new_claim("a"), new_claim("b"), new_claim("c"));
    let pass = Step::Pass { from: Box::new(new_claim("d")), to: new_claim("d") };
    let apart = [Step::Claim(a.clone()), Step::Release(b.clone()), pass, Step::Release(c)];
    assert_eq!(groups_of(&apart), [vec![1, 3], vec![0, 2]]);
    let same = [Step::Release(a.clone()), Step::Claim(b), Step::Claim(a)];
    assert_eq!(groups_of(&same), [[0], [1], [2]]);
    assert!(groups_of(&[]).is_empty());
}

#[test]
fn a_ttl_is_rounded_up() {
    assert_eq!(millis(Duration::from_micros(100_001)), 101);
    assert_eq!(millis(Duration::from_millis(100)), 100);
}

fn refs(steps: &[Step]) -> Vec<&Step> {
    steps.iter().collect()
}

/// The groups of steps that have no answers yet.
fn groups_of(steps: &[Step]) -> Vec<Group> {
    groups(steps, &vec![None::<()>; steps.len()], Format::default())
}

fn new_claim(key: &str) -> Claim {
    Claim {
        fences: NonZeroU32::new(64).unwrap(),
        ..Claim::new(
            Key::new(key).unwrap(),
            ClaimId { client: ClientId::random(), number: 7 },
            Kind::Mutex,
            Duration::from_secs(30),
        )
    }
}

/// The names in this line of the script's header comment, without text in parentheses and without units.
fn words(script: &Script, line: &str) -> Vec<String> {
    let lines = script.text(false).lines().filter_map(|line| line.strip_prefix("-- ")?.split_once(": "));
    let lines: BTreeMap<&str, &str> = lines.collect();
    let words = lines[line].split(" (").next().unwrap().split(", ");
    words.map(|word| word.trim_end_matches(" in ms").into()).collect()
}

/// The number of keys and the number of other arguments in a call of a script.
fn called_with(cmd: &Cmd) -> (usize, usize) {
    let texts = texts(cmd);
    let keys: usize = texts[2].parse().unwrap();
    (keys, texts.len() - 3 - keys)
}

/// All parts of a command, as texts. The ids of permits are not UTF-8, so they are shown with replacement characters.
fn texts(cmd: &Cmd) -> Vec<String> {
    let text = |arg| match arg {
        Arg::Simple(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => panic!("{other:?}"),
    };
    cmd.args_iter().map(text).collect()
}
