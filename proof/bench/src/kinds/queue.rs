//! Many waiters of one fair mutex: the cost of their places while they wait, and the order in which they are served.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use bandog_core::PLACE;
use bandog_testkit::RedisServer;
use serde_json::json;

use super::{Commands, Kind, Lock, commands::Log};
use crate::{
    cycles::Engine,
    held::core_percent,
    measure::Workers,
    report::{Report, Wanted},
};

const NAME: &str = "line";
/// The queue of `NAME`, as Redisson names it.
const QUEUE: &str = "redisson_lock_queue:{line}";
/// The script that renews places, composed as in bandog-redis.
const RENEW: &str = concat!(
    include_str!("../../../../crates/bandog-redis/src/lua/offer.lua"),
    include_str!("../../../../crates/bandog-redis/src/lua/common.lua"),
    include_str!("../../../../crates/bandog-redis/src/lua/queue.lua"),
    include_str!("../../../../crates/bandog-redis/src/lua/fair_renew.lua")
);
/// The text in that script before the number of keys for each place.
const KEYS_A_PLACE: &str = "return each(";
/// Number of places that one call of the script renews.
const PLACES_A_CALL: usize = 512;

/// Measures the calls of one client that wait for one fair mutex, which another client holds.
pub(crate) fn measure(report: &mut Report) {
    let waiters = report.size.pick(10_000, 200);
    let server = RedisServer::start();
    // The tasks of this runtime are polled in the order in which they are spawned, so this is the order of the calls.
    Workers::Current.runtime().block_on(async {
        let holder = Engine::OwnThread.connect(&server.url()).await;
        let client = Engine::OwnThread.connect(&server.url()).await;
        let held = Lock::new(&holder, Kind::Fair, NAME, 1).acquire().await;
        let served = Arc::new(Mutex::new(Vec::with_capacity(waiters)));
        let start = Instant::now();
        let waiting: Vec<_> = (0..waiters)
            .map(|number| {
                let (lock, served) = (Lock::new(&client, Kind::Fair, NAME, 1), Arc::clone(&served));
                tokio::spawn(async move {
                    let guard = lock.acquire().await;
                    served.lock().unwrap_or_else(PoisonError::into_inner).push(number);
                    guard.release().await.expect("released");
                })
            })
            .collect();
        while server.cmd(&["LLEN", QUEUE]).int() < i64::try_from(waiters).expect("a small number") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let queued = start.elapsed().as_secs_f64();
        let idle = Idle::measure(&server, 3 * PLACE / 2).await;
        let (before, start) = (Commands::of(&server), Instant::now());
        held.release().await.expect("released");
        for waiter in waiting {
            waiter.await.expect("served");
        }
        let all_served = start.elapsed().as_secs_f64();
        let commands = Commands::of(&server).since(&before);
        client.close().await.expect("closed");
        holder.close().await.expect("closed");
        let served = served.lock().unwrap_or_else(PoisonError::into_inner);
        let overtaken = served.windows(2).filter(|pair| pair[0] > pair[1]).count();
        report.raw(json!({"what": "kinds-queue", "waiters": waiters, "queued_s": queued, "served_s": all_served,
            "overtaken": overtaken, "idle_seconds": idle.seconds, "renewals_a_heartbeat": idle.a_heartbeat(idle.renewals),
            "places_a_heartbeat": idle.a_heartbeat(idle.places), "scripts_a_heartbeat": idle.a_heartbeat(idle.scripts), "core_percent": idle.core_percent,
            "commands_served": commands, "left": server.cmd(&["LLEN", QUEUE]).int()}));
        let ours = format!(
            "in the queue after {queued:.2} s, all served in {all_served:.2} s; a heartbeat renews {:.0} places in {:.1} calls, and \
             makes {:.1} other calls; {:.1} % of a core",
            idle.a_heartbeat(idle.places),
            idle.a_heartbeat(idle.renewals),
            idle.a_heartbeat(idle.scripts - idle.renewals),
            idle.core_percent
        );
        let scripts = commands.scripts() as f64 / waiters as f64;
        report.row(format!("{waiters} waiters of one fair mutex"), ours, format!("{scripts:.2} scripts a turn"), "");
        report.judge(
            &format!("{waiters} fair waiters: turns before an earlier call"),
            Wanted::AtMost(0.0),
            Some(overtaken as f64),
        );
        // A heartbeat that is split once still counts as one.
        let calls = 2.0 * waiters.div_ceil(PLACES_A_CALL) as f64;
        report.judge(
            &format!("{waiters} fair waiters: calls that renew places in {:.2} s", (PLACE / 3).as_secs_f64()),
            Wanted::AtMost(calls),
            Some(idle.a_heartbeat(idle.renewals)),
        );
    });
}

/// The calls of scripts while all waiters wait.
struct Idle {
    seconds: f64,
    /// Calls of the script that renews places.
    renewals: usize,
    /// Places that these calls have renewed.
    places: usize,
    /// Calls of all scripts.
    scripts: usize,
    core_percent: f64,
}

impl Idle {
    async fn measure(server: &RedisServer, idle: Duration) -> Self {
        let log = Log::start(server);
        let clock = Instant::now();
        let core_percent = core_percent(idle).await;
        let seconds = clock.elapsed().as_secs_f64();
        let mut idle = Self { seconds, renewals: 0, places: 0, scripts: 0, core_percent };
        let renew = redis::Script::new(RENEW);
        let keys_a_place = RENEW.rsplit_once(KEYS_A_PLACE).and_then(|(_, rest)| rest.split_once(','));
        let keys_a_place: usize = keys_a_place.and_then(|(keys, _)| keys.parse().ok()).expect("the number of keys");
        for request in log.requests() {
            let [hash, keys, ..] = &request.args[..] else { continue };
            if request.verb != "evalsha" {
                continue;
            }
            idle.scripts += 1;
            if hash == renew.get_hash() {
                idle.renewals += 1;
                idle.places += keys.parse::<usize>().expect("a number of keys") / keys_a_place;
            }
        }
        assert!(idle.renewals > 0, "no call of the script that renews places; is it composed in another way?");
        idle
    }

    /// The part of this number that falls into a third of `PLACE`, which is the interval between two renewals of a place.
    fn a_heartbeat(&self, counted: usize) -> f64 {
        counted as f64 / self.seconds * (PLACE / 3).as_secs_f64()
    }
}
