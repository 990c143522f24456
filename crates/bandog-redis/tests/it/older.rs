//! A program of an older version (58f9083), which knows only mutexes, uses the same server. The files of `samples` are
//! the scripts of that version.

use std::collections::BTreeMap;

use bandog_core::{Claim, ErrorKind, Kind, Released, Renewal, Verdict};
use bandog_testkit::{RedisServer, Reply};

use crate::help::{backend, claim, fences, release, renew, take};

const CLAIM: &str = include_str!("../samples/58f9083-claim.lua");
const RELEASE: &str = include_str!("../samples/58f9083-release.lua");
const RENEW: &str = include_str!("../samples/58f9083-renew.lua");

const TOKEN: &str = "redisson_lock_token:{k}";
/// The owner of the older program.
const OWNER: &str = "5f0a4a1e-6f3b-8c5d-9e7f-112233445566:7";

/// The keys of the server, with their values.
fn dump(server: &RedisServer) -> BTreeMap<String, Reply> {
    server.keys().into_iter().map(|key| (key.clone(), server.cmd(&["DUMP", &key]))).collect()
}

/// A claim of the older program. Returns the last fence, or `None` if the lock is busy.
fn claims(server: &RedisServer) -> Result<Option<u64>, String> {
    match server.cmd(&["EVAL", CLAIM, "2", "k", TOKEN, OWNER, "30000", "64", ""]) {
        Reply::Int(reply) => Ok(u64::try_from(reply).ok()),
        reply => Err(format!("{reply:?}")),
    }
}

fn releases(server: &RedisServer) -> Reply {
    server.cmd(&["EVAL", RELEASE, "1", "k", OWNER, "redisson_lock__channel:{k}"])
}

fn renews(server: &RedisServer) -> Reply {
    server.cmd(&["EVAL", RENEW, "1", "k", OWNER, "30000"])
}

/// Each kind of lock, and whether the older program gets an error instead of the answer that the lock is busy.
fn kinds() -> [(Kind, bool); 5] {
    let number = |number| std::num::NonZeroU32::new(number).unwrap();
    let permits = Kind::Permits { take: number(2), of: number(5) };
    [(Kind::Mutex, false), (Kind::Fair, false), (Kind::Read, false), (Kind::Write, false), (permits, true)]
}

#[tokio::test]
async fn an_older_program_gets_no_mutex_while_another_kind_holds_the_name_and_changes_nothing() {
    let server = RedisServer::start();
    let redis = backend(&server);
    for (kind, is_error) in kinds() {
        let held = Claim { kind, ..claim("k") };
        let fences = fences(&redis, &held).await;
        let before = dump(&server);
        let answer = claims(&server);
        assert_eq!(answer.is_err(), is_error, "{kind}: {answer:?}");
        assert_eq!(answer.unwrap_or_default(), None, "{kind}");
        for answer in [releases(&server), renews(&server)] {
            let refused =
                matches!(&answer, Reply::Int(-1) | Reply::Error(_)) || answer == Reply::Array(vec![Reply::Int(0)]);
            assert!(refused || is_error, "{kind}: {answer:?}");
        }
        assert_eq!(dump(&server), before, "{kind}");
        assert!(matches!(renew(&redis, &held).await.unwrap(), Renewal::Extended { .. }), "{kind}");
        assert!(matches!(release(&redis, &held).await.unwrap(), Released::Freed { .. }), "{kind}");
        if !is_error {
            assert!(claims(&server).unwrap().unwrap() > fences.last().get(), "{kind}");
            releases(&server);
        }
        server.cmd(&["FLUSHALL"]);
    }
}

#[tokio::test]
async fn no_kind_gets_a_name_while_an_older_program_holds_it_as_a_mutex() {
    let server = RedisServer::start();
    let redis = backend(&server);
    for (kind, _) in kinds() {
        let fence = claims(&server).unwrap().unwrap();
        let before = dump(&server);
        let asked = Claim { kind, ..claim("k") };
        match (kind, take(&redis, &asked).await) {
            (Kind::Mutex | Kind::Fair, Ok(Verdict::Busy { .. })) => {}
            (Kind::Read | Kind::Write | Kind::Permits { .. }, Err(error)) if error.kind() == ErrorKind::Denied => {}
            (_, answer) => panic!("{kind}: {answer:?}"),
        }
        assert_eq!(dump(&server), before, "{kind}");
        assert_eq!(renews(&server), Reply::Array(vec![Reply::Int(1)]), "{kind}");
        assert_eq!(releases(&server), Reply::Int(0), "{kind}");
        assert!(fences(&redis, &asked).await.last().get() > fence, "{kind}");
        server.cmd(&["FLUSHALL"]);
    }
}

/// A program of the older version ignores the queue, as any plain mutex does. The queue stays as it is.
#[tokio::test]
async fn an_older_program_between_two_waiters_of_a_fair_mutex_does_not_end_the_queue() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let joining = || Claim { kind: Kind::Fair, joins: true, ..claim("k") };
    let (holder, first, second) = (joining(), joining(), joining());
    fences(&redis, &holder).await;
    for waiter in [&first, &second] {
        assert!(matches!(take(&redis, waiter).await.unwrap(), Verdict::Busy { .. }));
    }
    release(&redis, &holder).await.unwrap();
    let fence = claims(&server).unwrap().expect("the lock is free");
    assert!(matches!(take(&redis, &first).await.unwrap(), Verdict::Busy { .. }));
    assert_eq!(releases(&server), Reply::Int(0));
    assert!(matches!(take(&redis, &second).await.unwrap(), Verdict::Busy { .. }));
    assert!(fences(&redis, &first).await.last().get() > fence);
    release(&redis, &first).await.unwrap();
    fences(&redis, &second).await;
}
