//! The statements for mutexes contain rules of a lock. These tests compare the answers and the rows of random steps with
//! [`LockState`], which contains the rules of all locks. The time is that of the test.

#[cfg(feature = "mysql")]
mod mysql;

use std::{
    collections::{HashMap, HashSet},
    env,
    num::NonZeroU32,
    time::{Duration, Instant},
};

use bandog_core::{
    Answer, Claim, ClaimId, ClientId, Error, Fence, Key, Kind, LockState, Moment, Released, Renewal, Result, Row, Step,
};
use fastrand::Rng;
use tokio::sync::oneshot;

use super::options;
use crate::{
    apply::Steps,
    context::Context,
    job::Request,
    mutexes::Renewals,
    options::{Dialect, SqlOptions},
    session::{Link, Session},
    statements::Statements,
    states::{self, StoredState},
};

/// Number of steps in the long test.
const STEPS: usize = 30_000;
/// A wrong rule must be found in this number of steps, with one of these seeds.
const STEPS_OF_MUTANT: usize = 25_000;
const SEEDS_OF_MUTANT: u64 = 8;
const NAMES: usize = 8;
/// Maximum number of steps in a call. Long calls are quicker, and short calls find wrong rules earlier.
const LONG_CALL: usize = 32;
const SHORT_CALL: usize = 12;
/// Unit of the time and of the ttls. They are multiples of it, so that holds often expire exactly at the time of a step.
const TICK: Duration = Duration::from_millis(100);
/// The time at the beginning: seconds since 1970.
const START: u64 = 1_790_000_000;

/// A part of a statement, and what is wrong in its place.
type Change = (&'static str, &'static str);

/// Changes of the statements that are wrong.
const MUTATIONS: [Change; 22] = [
    ("then pg_notify(j.channel, '') end is not null", "then null end is not null"),
    ("wanted = l.wanted and j.verdict = 'not held'", "wanted = l.wanted"),
    ("case when j.verdict = 'again' then l.expires end", "null"),
    ("then next else fence end", "then fence else fence end"),
    ("then next else fence end", "then next else next end"),
    ("set fence = j.next", "set fence = j.fence"),
    ("expires <= now then 'granted'", "expires < now then 'granted'"),
    ("owner = id then 'again'", "false then 'again'"),
    ("owner = $8::text and offers", "owner = $8::text"),
    ("owner = other or", ""),
    ("greatest(l.fence,", "greatest(0,"),
    (") + fences as next", ") + 1 as next"),
    ("l.starving and j.is_held end", "false end"),
    ("l.starving and j.is_held end", "l.starving end"),
    ("l.starving or j.offers", "l.starving"),
    ("j.now + j.ttl * interval '1 microsecond'", "j.now + j.ttl * interval '2 microsecond'"),
    ("when not is_plain then 'complex'", "when false then 'complex'"),
    ("owner = id and expires > now then 'freed'", "owner = id then 'freed'"),
    ("when j.starving then $5::text end", "when false then $5::text end"),
    ("'not held' and j.offers and j.starving", "'not held' and j.starving"),
    ("l.expires > clock_timestamp()", "true"),
    ("greatest(l.expires, clock_timestamp()", "greatest(clock_timestamp(), clock_timestamp()"),
];

/// Changes of the statements for one claim and one release that are wrong. A change that only decides fewer steps is not wrong,
/// because the statements for many names decide the others.
const MUTATIONS_OF_ONE: [Change; 14] = [
    ("l.state is null\n", "true\n"),
    ("and (l.owner is null or l.expires <= clock_timestamp())", ""),
    ("l.expires <= clock_timestamp())\n", "l.expires <= clock_timestamp() + interval '1 second')\n"),
    ("greatest(fence,", "greatest(0,"),
    ("greatest(fence, (extract(epoch from clock_timestamp()) * 1000000)::bigint)", "fence"),
    (") + $4::bigint", ") + least(1, $4::bigint)"),
    ("owner = $2::text, expires", "owner = coalesce(owner, $2::text), expires"),
    ("$3::bigint * interval '1 microsecond'", "$3::bigint * interval '2 microsecond'"),
    ("interval '1 microsecond', starving = false", "interval '1 microsecond', starving = true"),
    (
        "owner = $2::text and expires > clock_timestamp() and state",
        "owner >= $2::text and expires > clock_timestamp() and state",
    ),
    ("owner = $2::text and expires > clock_timestamp() and state", "owner = $2::text and state"),
    ("state is null\n        and not starving and not wanted", "true\n        and not starving and not wanted"),
    ("and not starving and not wanted", "and not wanted"),
    ("and not starving and not wanted", "and not starving"),
];

/// Number of steps that are executed alone.
const SINGLE_STEPS: usize = 3000;

/// A lock of the store and its model.
struct World {
    rng: Rng,
    now: Moment,
    keys: Vec<Key>,
    clients: Vec<ClientId>,
    models: HashMap<Key, LockState>,
    /// The names with the mark that a subscriber waits.
    wanted: HashSet<Key>,
    /// Claims that were made, which later steps name again.
    claims: Vec<Claim>,
    number: u64,
    max_steps: usize,
}

impl World {
    fn new(seed: u64, max_steps: usize) -> Self {
        Self {
            rng: Rng::with_seed(seed),
            now: Moment::from_nanos(START * 1_000_000_000),
            keys: (0..NAMES).map(|n| Key::new(format!("name {n}")).expect("the name is right")).collect(),
            clients: (0..4).map(|_| ClientId::random()).collect(),
            models: HashMap::new(),
            wanted: HashSet::new(),
            claims: Vec::new(),
            number: 0,
            max_steps,
        }
    }

    fn choose<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.rng.usize(..of.len())].clone()
    }

    fn count(&mut self, max: u32) -> NonZeroU32 {
        NonZeroU32::new(self.rng.u32(1..=max)).expect("the range begins at 1")
    }

    fn new_claim(&mut self) -> Claim {
        self.number += 1;
        let (keys, clients) = (self.keys.clone(), self.clients.clone());
        let id = ClaimId { client: self.choose(&clients), number: self.number };
        let key = self.choose(&keys);
        // Some names are only used as mutexes.
        let kind = match self.rng.u32(..8) {
            0 if key.as_str() > "name 3" => Kind::Fair,
            1 if key.as_str() > "name 3" => Kind::Read,
            2 if key.as_str() > "name 5" => Kind::Write,
            3 if key.as_str() > "name 5" => {
                Kind::Permits { take: self.count(2), of: NonZeroU32::MIN.saturating_add(2) }
            }
            _ => Kind::Mutex,
        };
        // On MariaDB, claims that differ in these are not in one statement.
        let (ttl, fences) = if self.rng.u32(..4) == 0 {
            (TICK * self.count(8).get(), self.count(64))
        } else {
            (TICK * 4, NonZeroU32::MIN.saturating_add(9))
        };
        let above = (self.rng.u32(..40) == 0).then(|| Fence::new(self.now.as_nanos() / 1000 + 70));
        Claim { key, id, kind, ttl, fences, above, joins: self.rng.bool(), offers: self.rng.u32(..4) == 0 }
    }

    /// A new claim, or one that was made before.
    fn claim(&mut self) -> Claim {
        if self.claims.is_empty() || self.rng.u32(..3) == 0 {
            let claim = self.new_claim();
            self.claims.push(claim.clone());
            if self.claims.len() > 20 {
                self.claims.remove(0);
            }
            return claim;
        }
        let known = self.claims.clone();
        Claim { offers: self.rng.u32(..4) == 0, ..self.choose(&known) }
    }

    /// A claim that holds its lock. Any claim, if none does.
    fn held_claim(&mut self) -> Claim {
        let holds = |claim: &&Claim| {
            let mut model = self.models.get(&claim.key).cloned().unwrap_or_default();
            matches!(model.renew(claim, self.now), Renewal::Extended { .. })
        };
        let held: Vec<_> = self.claims.iter().filter(holds).cloned().collect();
        if held.is_empty() { self.claim() } else { self.choose(&held) }
    }

    fn step(&mut self) -> Step {
        match self.rng.u32(..10) {
            // A claim that is sent again can have another ttl.
            0 => Step::Claim(Claim { ttl: TICK * self.count(8).get(), ..self.claim() }),
            1..=4 => Step::Claim(self.claim()),
            5..=6 => Step::Release(self.claim()),
            7..=8 => Step::Release(self.held_claim()),
            _ => {
                let from = self.claim();
                let to = Claim { key: from.key.clone(), kind: from.kind, ..self.new_claim() };
                self.claims.push(to.clone());
                Step::Pass { from: Box::new(from), to }
            }
        }
    }

    /// The answers of the model.
    fn expect(&mut self, steps: &[Step]) -> Vec<Result<Answer>> {
        let (now, above) = (self.now, Fence::new(self.now.as_nanos() / 1000));
        let apply = |step: &Step| {
            let model = self.models.entry(step.key().clone()).or_default();
            let answer = model.apply_above(step, now, above)?;
            let has_notified = model.wakes_others(step, &answer)
                && (self.wanted.remove(step.key()) || model.next_in_queue(now).is_some());
            Ok(match answer {
                Answer::Released(Released::Freed { .. }) => Answer::Released(Released::freed(has_notified)),
                answer => answer,
            })
        };
        steps.iter().map(apply).collect()
    }

    fn expect_renewed(&mut self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        let now = self.now;
        claims.iter().map(|claim| Ok(self.models.entry(claim.key.clone()).or_default().renew(claim, now))).collect()
    }

    /// Executes one call on the store and on the model. Returns the difference, if there is one.
    async fn call(&mut self, session: &mut Session, context: &Context) -> Option<String> {
        self.now = self.now + TICK * self.rng.u32(..4).saturating_sub(2);
        let micros = self.now.as_nanos() / 1000;
        let time = match context.options.dialect {
            Dialect::Postgres => format!("set test.now to '{}.{:06}'", micros / 1_000_000, micros % 1_000_000),
            #[cfg(feature = "mysql")]
            Dialect::MySql => format!("set @now = {micros}"),
        };
        session.drive(|link| link.execute(&time)).await.expect("the time is set");
        let keys = self.keys.clone();
        let key = self.choose(&keys);
        // A lock that was granted has a row.
        let has_row = self.models.get(&key).is_some_and(|model| model.fence() > Fence::new(0));
        if has_row && self.rng.u32(..16) == 0 {
            let names = vec![key.as_str()];
            let marked = session.drive(async |link| link.query(&link.statements.want, &[&names]).await).await;
            marked.expect("the mark is set");
            self.wanted.insert(key);
        }
        let count = self.rng.usize(1..=self.max_steps);
        let done = if self.rng.u32(..4) == 0 {
            let claims: Vec<_> = (0..count).map(|_| self.claim()).collect();
            let renewed = session.drive(|link| renew(link, context, &claims)).await;
            renewed.map(|renewed| difference(&claims, &renewed, &self.expect_renewed(&claims)))
        } else {
            let steps: Vec<_> = (0..count).map(|_| self.step()).collect();
            let applied = session.drive(|link| apply(link, context, &steps)).await;
            applied.map(|applied| difference(&steps, &applied, &self.expect(&steps)))
        };
        done.unwrap_or_else(|fault| Some(format!("{fault:?}")))
    }

    /// The difference between the rows of the store and the model.
    async fn compare_rows(&self, session: &mut Session) -> Option<String> {
        let names: Vec<_> = self.keys.iter().map(Key::as_str).collect();
        let rows = session.drive(|link| shown(link, &names)).await.expect("the rows can be read");
        for (name, stored) in rows {
            let key = Key::new(&name).expect("the name is right");
            let model = self.models.get(&key).cloned().unwrap_or_default();
            let (state, is_wanted) = (&stored.state, self.wanted.contains(&key));
            let (row, expected): (Option<Row>, _) = (state.row(&key, self.now), model.row(&key, self.now));
            // The note that a client starves belongs to the hold.
            let is_noted = row.is_some() && state.is_starving() != model.is_starving();
            if row != expected || state.fence() != model.fence() || is_noted || stored.wanted != is_wanted {
                return Some(format!("{state}, wanted: {} instead of {model}, wanted: {is_wanted}", stored.wanted));
            }
        }
        None
    }
}

async fn apply(link: &Link, context: &Context, steps: &[Step]) -> Result<Vec<Result<Answer>>, crate::fault::Fault> {
    let (reply, mut answers) = oneshot::channel();
    let mut call = Steps::default();
    call.add(steps.to_vec(), Instant::now() + Duration::from_secs(60), reply);
    while call.keep_open_calls(|| panic!("the deadline has passed")) {
        call.run(link, context).await?;
    }
    Ok(answers.try_recv().expect("the answers were sent"))
}

async fn renew(link: &Link, context: &Context, claims: &[Claim]) -> Result<Vec<Result<Renewal>>, crate::fault::Fault> {
    let (reply, mut answers) = oneshot::channel();
    let mut call = Renewals::default();
    call.add(claims.to_vec(), reply);
    call.run(link, context).await?;
    call.finish(None);
    Ok(answers.try_recv().expect("the answers were sent"))
}

async fn shown(link: &Link, names: &[&str]) -> Result<Vec<(String, StoredState)>, crate::fault::Fault> {
    let rows = link.query(&link.statements.show, &[&names.to_vec()]).await?;
    let read = |row: &crate::row::Row| Ok((row.try_get(0)?, states::read(row)??));
    rows.iter().map(read).collect()
}

/// The first step whose answer is not that of the model.
fn difference<S: std::fmt::Debug, A: PartialEq + std::fmt::Debug>(
    steps: &[S],
    answers: &[Result<A>],
    expected: &[Result<A>],
) -> Option<String> {
    let is_same = |answer: &Result<A>, expected: &Result<A>| match (answer, expected) {
        (Ok(answer), Ok(expected)) => answer == expected,
        (Err(error), Err(expected)) => error.kind() == Error::kind(expected),
        _ => false,
    };
    let all = steps.iter().zip(answers).zip(expected);
    let found = all.into_iter().find(|((_, answer), expected)| !is_same(answer, expected));
    found.map(|((step, answer), expected)| format!("{step:?}: {answer:?} instead of {expected:?}"))
}

/// Executes random steps with these statements. Returns the first difference between the store and the model.
async fn run(options: SqlOptions, statements: Statements, steps: usize, max_steps: usize, seed: u64) -> Option<String> {
    let (clock, time) = match options.dialect {
        Dialect::Postgres => {
            ("clock_timestamp()", "(to_timestamp(0) + (current_setting('test.now') || ' seconds')::interval)")
        }
        #[cfg(feature = "mysql")]
        Dialect::MySql => ("utc_timestamp(6)", "('1970-01-01' + interval @now microsecond)"),
    };
    let statements = statements.changed(|text| text.replace(clock, time));
    let context = Context::new(options, statements);
    let mut session = Session::open(&context).await.expect("the server is up");
    let mut world = World::new(seed, max_steps);
    let mut calls = 0;
    // Half of the maximum is the average.
    while calls < steps * 2 / (max_steps + 1) {
        if let Some(difference) = world.call(&mut session, &context).await {
            return Some(difference);
        }
        calls += 1;
        if calls % (if max_steps == 1 { 4 } else { 20 }) == 0
            && let Some(difference) = world.compare_rows(&mut session).await
        {
            return Some(difference);
        }
    }
    session.close().await;
    None
}

/// The statements of PostgreSQL, of which those for one name decide nothing. So those for many names decide all steps.
fn for_many() -> Statements {
    let never =
        |text: &str| text.replace("where name = $1::text and exists", "where name = $1::text and false and exists");
    let all = Statements::postgres();
    Statements { claim_one: never(&all.claim_one), release_one: never(&all.release_one), ..all }
}

/// Checks that the store and the model agree about random steps.
async fn expect_agreement(options: SqlOptions, statements: Statements, steps: usize, max_steps: usize) {
    let seed = fastrand::u64(..);
    let found = run(options, statements, steps, max_steps, seed).await;
    assert_eq!(found, None, "seed {seed}");
}

/// If this environment variable is set, the tests of wrong statements take minutes: they make all changes.
const LONG: &str = "BANDOG_TEST_LONG";
/// Without [`LONG`], every fourth change is made, from a random one on.
const PART: usize = 4;
/// Changes that random steps find after minutes only. They are made with [`LONG`].
const RARE: [Change; 2] = [
    ("coalesce(starving and expires > utc_timestamp(6), false)", "false"),
    ("        and expires > utc_timestamp(6) and state is null", "        and state is null"),
];

/// The halves of a list of changes are tests of their own, which run at the same time.
fn first_half(changes: &[Change]) -> &[Change] {
    &changes[..changes.len() / 2]
}

fn second_half(changes: &[Change]) -> &[Change] {
    &changes[changes.len() / 2..]
}

/// Checks that random steps find each of these changes, or each of a part of them.
async fn expect_found(changes: &[Change], statements: Statements, options: fn() -> SqlOptions, max_steps: usize) {
    let is_long = env::var_os(LONG).is_some();
    let (first, every) = if is_long { (0, 1) } else { (fastrand::usize(..PART), PART) };
    let wanted = changes.iter().filter(|change| is_long || !RARE.contains(change));
    for (right, wrong) in wanted.skip(first).step_by(every) {
        let replaced = std::cell::Cell::new(false);
        let mutant = statements.clone().changed(|text| {
            replaced.set(replaced.get() || text.contains(right));
            text.replace(right, wrong)
        });
        assert!(replaced.get(), "no statement contains {right:?}");
        let mut found = None;
        for seed in 1..=SEEDS_OF_MUTANT {
            found = found.or(run(options(), mutant.clone(), STEPS_OF_MUTANT, max_steps, seed).await);
            if found.is_some() {
                break;
            }
        }
        assert!(found.is_some(), "{wrong:?} instead of {right:?} was not found");
    }
}

// Promise: PG6, PG9
#[tokio::test]
async fn the_statements_for_many_names_have_the_rules_of_lock_state() {
    expect_agreement(options(), for_many(), STEPS / 2, LONG_CALL).await;
}

// Promise: PG6, PG9
#[tokio::test]
async fn all_statements_have_the_rules_of_lock_state() {
    expect_agreement(options(), Statements::postgres(), STEPS / 2, LONG_CALL).await;
}

// Promise: PG6, PG9
#[tokio::test]
async fn single_steps_have_the_rules_of_lock_state() {
    expect_agreement(options(), Statements::postgres(), SINGLE_STEPS, 1).await;
}

// Promise: PG9
#[tokio::test]
async fn a_wrong_rule_for_many_names_is_found() {
    expect_found(first_half(&MUTATIONS), for_many(), options, SHORT_CALL).await;
}

// Promise: PG9
#[tokio::test]
async fn another_wrong_rule_for_many_names_is_found() {
    expect_found(second_half(&MUTATIONS), for_many(), options, SHORT_CALL).await;
}

// Promise: PG9
#[tokio::test]
async fn a_wrong_rule_for_one_name_is_found() {
    expect_found(first_half(&MUTATIONS_OF_ONE), Statements::postgres(), options, 1).await;
}

// Promise: PG9
#[tokio::test]
async fn another_wrong_rule_for_one_name_is_found() {
    expect_found(second_half(&MUTATIONS_OF_ONE), Statements::postgres(), options, 1).await;
}
