//! Swaps of records per second on one connection, like those of jobs. Each swap writes a text of about 300 bytes, and
//! requires that a lock is held and that a time has passed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, UNIX_EPOCH},
};

use bandog_core::{
    Answer, Claim, ClaimId, ClientId, Holding, Key, Kind, Leases, Line, Records, Step, Swap, Swapped, Verdict,
};
use bandog_redis::{Redis, RedisOptions};
use bandog_testkit::RedisServer;
use redis::aio::MultiplexedConnection;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::{
    cycles::Engine,
    driver::Row,
    floor::dial,
    measure::{Workers, count},
    report::{Report, Wanted},
};

/// The text of a job's record.
const TEXT: &str = r#"{"w":1790000000000,"anchor":1780000000000,"next_due":1790000060000,"fence":421337,"ok":421001,"failed":17,"skipped":319,"live":[{"id":421337,"tick":1790000000000,"kind":"scheduled","attempt":1,"node":"shop-1","key":"schedule/node/3","claim":"957c1da6-54c9-8017-93c7-a4ef987df61c:19"}],"pause":null,"revision":7}"#;
/// One line of a job's history.
const LINE: &str = r#"{"id":421336,"tick":1789999940000,"kind":"scheduled","attempt":1,"node":"shop-1","fence":421336,"due":1789999940000,"started":1789999940012,"ended":1789999941207,"state":"ok"}"#;

/// How swaps (conditional writes of records) are sent: each of `tasks` tasks repeatedly sends `each` swaps in one call,
/// and waits for the answers. Each swap adds `lines` lines of history.
#[derive(Debug, Clone, Copy)]
struct Traffic {
    tasks: usize,
    each: usize,
    lines: usize,
}

pub(crate) fn measure(report: &mut Report) {
    let (server, span) = (RedisServer::start(), report.span);
    // The command with which other schedulers claim a run.
    for tasks in [1, 256] {
        Row::new(json!({"what": "records", "tasks": tasks}), &["per_second"])
            .beside("SET NX PX", || claims_of_others(&server, tasks, span))
            .measure(report);
    }
    for lines in [0, 1] {
        for (tasks, each, over, wanted) in [
            (1, 1, "the backend itself", None),
            (256, 1, "the backend itself", Some(20_000.0)),
            (1, 256, "the backend itself", None),
            (4, 256, "the backend itself", Some(200_000.0)),
            (2, 1024, "the backend itself", Some(200_000.0)),
            (256, 1, "a client", Some(20_000.0)),
        ] {
            let wanted = wanted.filter(|_| lines == 0 || over == "a client").map(Wanted::AtLeast);
            let name = json!({"what": "records", "tasks": tasks, "swaps_each": each, "lines": lines});
            Row::new(name, &["per_second"])
                .side(format!("over {over}"), || swaps(&server, Traffic { tasks, each, lines }, over, span))
                .wanted("per_second", [wanted])
                .measure(report);
        }
    }
}

fn claims_of_others(server: &RedisServer, tasks: usize, span: Duration) -> Value {
    server.cmd(&["FLUSHALL"]);
    Workers::Two.runtime().block_on(async {
        let connection = dial(&server.url()).await;
        let cycle = |number: usize| {
            let connection = connection.clone();
            let ticks = Arc::new(AtomicU64::new(0));
            move || {
                let tick = ticks.fetch_add(1, Relaxed);
                claim_of_others(connection.clone(), format!("job-{number}:{tick}"))
            }
        };
        count(tasks, span, cycle).await
    })
}

async fn claim_of_others(mut connection: MultiplexedConnection, name: String) {
    let mut set = redis::cmd("SET");
    set.arg(&name).arg("957c1da6-54c9-8017-93c7-a4ef987df61c:19").arg("NX").arg("PX").arg(1000);
    set.query_async::<()>(&mut connection).await.expect("the server answers");
}

fn swaps(server: &RedisServer, traffic: Traffic, over: &str, span: Duration) -> Value {
    server.cmd(&["FLUSHALL"]);
    Workers::Two.runtime().block_on(async {
        let options = RedisOptions::from_url(&server.url()).expect("a URL");
        let redis = Redis::new(options).expect("options");
        let held = hold(&redis).await;
        let records: Arc<dyn Records> = match over {
            "a client" => Arc::new(Engine::OwnThread.connect(&server.url()).await.records()),
            _ => Arc::new(redis),
        };
        let mut each = Vec::with_capacity(traffic.tasks);
        for task in 0..traffic.tasks {
            each.push(Arc::new(Mutex::new(create_records(&*records, task, traffic, &held).await)));
        }
        let cycle = |task: usize| {
            let (records, swaps) = (Arc::clone(&records), Arc::clone(&each[task]));
            move || {
                let (records, swaps) = (Arc::clone(&records), Arc::clone(&swaps));
                async move { swap(&*records, &mut swaps.lock().await).await }
            }
        };
        let mut calls = count(traffic.tasks, span, cycle).await;
        calls["per_second"] = json!(calls["per_second"].as_f64().map(|calls| calls * traffic.each as f64));
        calls
    })
}

/// Creates the records of one task, and returns the next swap of each record.
async fn create_records(records: &dyn Records, task: usize, traffic: Traffic, held: &Holding) -> Vec<Swap> {
    let line = Line { slot: "ok:17".into(), value: LINE.into() };
    let swap = |number| Swap {
        not_before: Some(UNIX_EPOCH + Duration::from_millis(1_790_000_000_000)),
        held: Some(held.clone()),
        lines: vec![line.clone(); traffic.lines],
        ..Swap::new(Key::new(format!("job/report-{task}-{number}")).expect("a name"), None, TEXT)
    };
    let mut swaps: Vec<Swap> = (0..traffic.each).map(swap).collect();
    self::swap(records, &mut swaps).await;
    swaps
}

/// Sends these swaps, and changes each to the next swap of the same record.
async fn swap(records: &dyn Records, swaps: &mut [Swap]) {
    let done = records.swap(swaps).await.expect("the server answers").each;
    for (swap, done) in swaps.iter_mut().zip(done) {
        let Ok(Swapped::Done(version)) = done else { panic!("no other client changes the records: {done:?}") };
        swap.from = version;
    }
}

async fn hold(redis: &Redis) -> Holding {
    let id = ClaimId { client: ClientId::random(), number: 1 };
    let claim = Claim::new(Key::new("schedule/node/1").expect("a name"), id, Kind::Mutex, Duration::from_secs(3600));
    let key = claim.key.clone();
    let granted = redis.apply(&[Step::Claim(claim)]).await;
    assert!(matches!(granted[..], [Ok(Answer::Claimed(Verdict::Granted { .. }))]), "{granted:?}");
    Holding { key, id }
}
