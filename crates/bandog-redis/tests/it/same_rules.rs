//! The scripts follow the rules of `LockState`: random steps have the same answers, and show the same rows.
//!
//! The server's clock cannot be set. So time passes by lowering the ttls and the scores of all keys, in steps of 3 s.
//! Each ttl of a claim, and `PLACE`, differs from every multiple of 3 s by at least a second. A run that takes longer
//! than that is ended.

use std::{
    collections::HashMap,
    num::NonZeroU32,
    time::{Duration, Instant},
};

use bandog_core::{
    Answer, Claim, ClaimId, Fence, Fences, Inspect, Kind, Leases, LockState, Moment, Released, Result, Row, Step,
    Verdict,
};
use bandog_redis::{Redis, RedisOptions};
use bandog_testkit::RedisServer;

use crate::help::{claim, renew};

const RUNS: u64 = 80;
const STEPS: usize = 80;
/// Maximum duration of a run.
const MAX_RUN: Duration = Duration::from_millis(900);
/// From this number of readers on, some steps do not read all of them.
const MANY_READERS: usize = 8;
const NOTE: &str = "bandog:starving:{k}";
/// Lets time pass, in ms: lowers each ttl, and each score that is a time.
const PASS_TIME: &str = "
    local ms = tonumber(ARGV[1])
    for _, key in ipairs(redis.call('keys', '*')) do
        if redis.call('type', key).ok == 'zset' then
            for _, member in ipairs(redis.call('zrange', key, 0, -1)) do redis.call('zincrby', key, -ms, member) end
        end
        local left = redis.call('pttl', key)
        if left >= 0 and left <= ms then redis.call('del', key) elseif left > ms then redis.call('pexpire', key, left - ms) end
    end";

/// A lock in the store, and the same lock in a `LockState`.
struct Both<'s> {
    server: &'s RedisServer,
    redis: &'s Redis,
    state: LockState,
    /// The time that has passed for the `LockState`.
    passed: Duration,
    /// The fences of each grant, by the rules and in the store.
    granted: HashMap<ClaimId, (Fences, Fences)>,
    last: Fence,
}

impl<'s> Both<'s> {
    fn new(server: &'s RedisServer, redis: &'s Redis) -> Self {
        server.cmd(&["FLUSHALL"]);
        let passed = Duration::from_secs(1_000);
        Self { server, redis, state: LockState::default(), passed, granted: HashMap::new(), last: Fence::new(0) }
    }

    fn now(&self) -> Moment {
        Moment::from_nanos(u64::try_from(self.passed.as_nanos()).unwrap())
    }

    fn pass_time(&mut self, seconds: u64) {
        self.passed += Duration::from_secs(seconds);
        let reply = self.server.cmd(&["EVAL", PASS_TIME, "0", &(seconds * 1000).to_string()]);
        assert!(reply.is_nil(), "{reply:?}");
    }

    async fn step(&mut self, wanted: Step) {
        self.steps(&[wanted]).await;
    }

    /// Executes these steps in one call.
    async fn steps(&mut self, wanted: &[Step]) {
        // The note expires by itself in the store, and by the rules with the holds.
        if self.state.is_starving() {
            self.server.cmd(&["SET", NOTE, "", "PX", "600000"]);
        } else {
            self.server.cmd(&["DEL", NOTE]);
        }
        let mut state = self.state.clone();
        let now = self.now();
        let ruled: Vec<_> = wanted.iter().map(|step| (state.clone(), state.apply(step, now))).collect();
        self.state = state;
        let answers = self.redis.apply(wanted).await;
        assert_eq!(answers.len(), wanted.len());
        for ((step, (before, ruled)), answered) in wanted.iter().zip(&ruled).zip(&answers) {
            self.compare(step, ruled, answered, before);
        }
        if let ([Step::Claim(claim) | Step::Release(claim) | Step::Pass { to: claim, .. }], [(before, ruled)]) =
            (wanted, &ruled[..])
        {
            let is_starving_grant = claim.offers && matches!(ruled, Ok(Answer::Claimed(Verdict::Granted { .. })));
            if self.state.is_starving() && !is_starving_grant {
                assert!(self.server.pttl(NOTE) > 0, "{wanted:?} left no note: {before}");
            }
        }
        if self.state.holds().iter().any(|hold| hold.id == ClaimId::OFFERED) {
            let left = self.server.pttl("k");
            assert!((1..=3000).contains(&left), "an offer of {left} ms after {wanted:?}: {}", self.state);
            self.server.cmd(&["PEXPIRE", "k", "3000"]);
        }
        if let Some(step) = wanted.last() {
            self.compare_rows(step).await;
        }
    }

    fn compare(&mut self, wanted: &Step, ruled: &Result<Answer>, answered: &Result<Answer>, before: &LockState) {
        let context = format!("{wanted:?}\nby the rules: {ruled:?}\nin the store: {answered:?}\nbefore: {before}");
        match (ruled, answered) {
            (Err(ruled), Err(answered)) => assert_eq!(ruled.kind(), answered.kind(), "{context}"),
            (Ok(Answer::Released(Released::Freed { .. })), Ok(Answer::Released(Released::Freed { .. }))) => {}
            (Ok(ruled @ Answer::Released(_)), Ok(answered)) => assert_eq!(ruled, answered, "{context}"),
            (Ok(Answer::Claimed(ruled)), Ok(Answer::Claimed(answered))) => {
                let (Step::Claim(claim) | Step::Release(claim) | Step::Pass { to: claim, .. }) = wanted;
                self.compare_verdicts(claim, ruled, answered, before.holds().len(), &context);
            }
            _ => panic!("{context}"),
        }
    }

    fn compare_verdicts(&mut self, claim: &Claim, ruled: &Verdict, answered: &Verdict, holds: usize, context: &str) {
        match (ruled, answered) {
            (
                Verdict::Granted { fences: ruled, valid_for, followers: ruled_followers },
                Verdict::Granted { fences, valid_for: answered, followers },
            ) => {
                assert_eq!((valid_for, ruled_followers), (answered, followers), "{context}");
                match self.granted.get(&claim.id) {
                    Some((earlier, stored)) if earlier == ruled => assert_eq!(stored, fences, "{context}"),
                    Some(_) | None => {
                        assert!(fences.clone().take() > Some(self.last), "{context}");
                        self.last = fences.last();
                        self.granted.insert(claim.id, (ruled.clone(), fences.clone()));
                    }
                }
            }
            (
                Verdict::Busy { retry_after: ruled, ahead },
                Verdict::Busy { retry_after: answered, ahead: answered_ahead },
            ) => {
                assert_eq!(ahead, answered_ahead, "{context}");
                assert!(*ruled < *answered + Duration::from_secs(4), "{context}");
                // Not every step reads all readers. The ttl of the hash can be longer than their holds.
                let is_sampled = matches!(claim.kind, Kind::Read | Kind::Write) && holds >= MANY_READERS;
                assert!(is_sampled || *answered < *ruled + Duration::from_secs(4), "{context}");
            }
            _ => panic!("{context}"),
        }
    }

    async fn compare_rows(&self, wanted: &Step) {
        let key = wanted.key();
        let ruled = self.state.row(key, self.now());
        let shown = Some(self.redis.show(key).await.unwrap()).filter(Row::is_held);
        let context = || format!("{wanted:?}\nby the rules: {ruled:?}\nin the store: {shown:?}\n{}", self.state);
        let outline = |row: &Row| {
            let kind = |kind| match kind {
                // The store keeps the present limit, and not the limit that the claim has named.
                Kind::Permits { take, .. } => format!("{take} permits"),
                kind => kind.to_string(),
            };
            let holders = row.holders.iter().map(|holder| (holder.owner.clone(), holder.kind.map(kind)));
            let mut holders: Vec<_> = holders.collect();
            holders.sort();
            let mut queue = row.queue.clone();
            if !matches!(row.kind, Some(Kind::Fair)) {
                queue.sort();
            }
            (holders, queue)
        };
        assert_eq!(shown.as_ref().map(outline), ruled.as_ref().map(outline), "{}", context());
        for holder in shown.iter().flat_map(|row| &row.holders) {
            let id: ClaimId = holder.owner.as_deref().unwrap().parse().unwrap();
            assert_eq!(holder.last_fence, Some(self.granted[&id].1.last()), "{}", context());
        }
    }
}

/// Executes random steps of claims whose kinds `new` returns. `joins`: whether some of them join the queue.
async fn random_steps(joins: bool, new: impl Fn(&mut fastrand::Rng) -> Kind) {
    random_steps_in("", joins, new).await;
}

/// Like [`random_steps`], with these options in the URL.
async fn random_steps_in(query: &str, joins: bool, new: impl Fn(&mut fastrand::Rng) -> Kind) {
    let server = RedisServer::start();
    let url = format!("redis://{}@{}{query}", RedisServer::OPERATOR, server.addr());
    // The rules know no clocks of Java clients.
    let redis = Redis::new(RedisOptions::from_url(&url).unwrap().java_skew(Duration::ZERO)).unwrap();
    let mut steps = 0;
    for run in 0..RUNS {
        let mut random = fastrand::Rng::with_seed(run);
        let mut both = Both::new(&server, &redis);
        let mut claims: Vec<Claim> = Vec::new();
        let start = Instant::now();
        for _ in 0..STEPS {
            if start.elapsed() > MAX_RUN {
                break;
            }
            steps += 1;
            let fresh = Claim {
                kind: new(&mut random),
                ttl: Duration::from_millis([16_500, 25_500, 34_500][random.usize(..3)]),
                fences: NonZeroU32::new(random.u32(1..=5)).unwrap(),
                above: None,
                joins: joins && random.bool(),
                offers: random.u32(..4) == 0,
                ..claim("k")
            };
            let any = (!claims.is_empty()).then(|| claims[random.usize(..claims.len())].clone());
            match (random.u32(..12), any) {
                (0, _) if matches!(fresh.kind, Kind::Permits { .. }) && random.bool() => {
                    let limit = NonZeroU32::new(random.u32(2..=5)).unwrap();
                    let ruled = both.state.set_limit(limit, both.now());
                    let answered = redis.set_limit(&fresh.key, limit).await;
                    assert_eq!(ruled.ok(), answered.ok(), "{limit}: {}", both.state);
                }
                (0, _) => both.pass_time([3, 3, 6, 30][random.usize(..4)]),
                (1 | 2, Some(claim)) => both.step(Step::Release(Claim { offers: true, ..claim })).await,
                (3, Some(claim)) => {
                    let next = if random.bool() { fresh } else { claims[random.usize(..claims.len())].clone() };
                    let release = Step::Release(Claim { offers: true, ..claim });
                    both.steps(&[release, Step::Claim(next.clone())]).await;
                    claims.push(next);
                }
                (4 | 5, Some(claim)) => {
                    // A quorum sends a claim again with the rest of its ttl.
                    let changes = matches!(claim.kind, Kind::Mutex | Kind::Read | Kind::Write) && random.bool();
                    let ttl = if changes { fresh.ttl } else { claim.ttl };
                    both.step(Step::Claim(Claim { ttl, ..claim })).await;
                }
                (6, Some(from)) => {
                    // In the store, a pass of a mutex takes no part in offers.
                    let fresh = Claim { offers: fresh.offers && !matches!(fresh.kind, Kind::Mutex), ..fresh };
                    both.step(Step::Pass { from: Box::new(from), to: fresh.clone() }).await;
                    claims.push(fresh);
                }
                (7, Some(claim)) => {
                    let ruled = both.state.renew(&claim, both.now());
                    assert_eq!(renew(&redis, &claim).await.unwrap(), ruled, "{claim:?}: {}", both.state);
                }
                (_, _) => {
                    both.step(Step::Claim(fresh.clone())).await;
                    claims.push(fresh);
                }
            }
            if claims.len() > 8 {
                claims.remove(random.usize(..8));
            }
        }
    }
    assert!(steps > 100, "the machine is too slow for this test");
}

#[tokio::test]
async fn a_read_write_lock_follows_the_rules() {
    random_steps(true, |random| if random.bool() { Kind::Read } else { Kind::Write }).await;
}

#[tokio::test]
async fn a_semaphore_follows_the_rules() {
    random_steps(true, permits).await;
}

// Promise: RD23
#[tokio::test]
async fn a_plain_semaphore_follows_the_rules() {
    random_steps_in("?semaphores=plain", true, permits).await;
}

// Promise: RD21
#[tokio::test]
async fn a_mutex_that_is_a_string_follows_the_rules() {
    random_steps_in("?layout=setnx", false, |_| Kind::Mutex).await;
}

fn permits(random: &mut fastrand::Rng) -> Kind {
    let [take, of] = [random.u32(1..=3), [4, 4, 4, 4, 5, 2][random.usize(..6)]].map(|n| NonZeroU32::new(n).unwrap());
    Kind::Permits { take, of }
}

#[tokio::test]
async fn a_fair_lock_follows_the_rules() {
    random_steps(true, |random| if random.u32(..5) == 0 { Kind::Mutex } else { Kind::Fair }).await;
}

/// A claim of one family is refused while a claim of another family holds the name.
#[tokio::test]
async fn locks_of_different_families_follow_the_rules() {
    let kinds = [Kind::Mutex, Kind::Fair, Kind::Read, Kind::Read, Kind::Write];
    random_steps(false, |random| kinds[random.usize(..kinds.len())]).await;
}
