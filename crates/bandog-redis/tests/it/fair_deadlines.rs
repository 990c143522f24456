//! The deadlines of our claims in the queue of a fair mutex beside waiters of Redisson.
//!
//! The server's clock cannot be set. So time passes by lowering the deadlines. The steps of Redisson are those of its
//! scripts, as recorded from Redisson 4.7.0.

use bandog_core::{Claim, Renewal};
use bandog_redis::Redis;
use bandog_testkit::RedisServer;

use crate::{
    fair::{DEADLINES, QUEUE, WAIT, ahead, deadline, fair, java_waits, queue},
    help::{JAVA, backend, is_granted, no_message, now_ms, release, renew},
    layout::subscriber,
};

/// An owner of Redisson that holds the lock.
const HOLDER: &str = "c3a1f0d2-0b5e-4a77-8d1c-5f6e7a8b9c0d:21";

/// The claim of a waiter of Redisson: it removes the heads of the queue whose deadlines are over, and takes the lock if
/// it is free and the waiter is the first. Then the waiter's own wait time is taken off the other deadlines.
const JAVA_CLAIMS: &str = "
    local lock, queue, deadlines = KEYS[1], KEYS[2], KEYS[3]
    local owner, wait, now = ARGV[1], ARGV[2], tonumber(ARGV[3])
    local first = redis.call('lindex', queue, 0)
    while first and tonumber(redis.call('zscore', deadlines, first)) <= now do
        redis.call('zrem', deadlines, first)
        redis.call('lpop', queue)
        first = redis.call('lindex', queue, 0)
    end
    if redis.call('exists', lock) == 1 or first and first ~= owner then return 0 end
    redis.call('lpop', queue)
    redis.call('zrem', deadlines, owner)
    for _, other in ipairs(redis.call('zrange', deadlines, 0, -1)) do
        redis.call('zincrby', deadlines, -tonumber(wait), other)
    end
    redis.call('hset', lock, owner, 1)
    redis.call('pexpire', lock, 600000)
    return 1";

/// The lock is held by Redisson.
fn java_holds(server: &RedisServer) {
    server.cmd(&["HSET", "k", HOLDER, "1"]);
    server.cmd(&["PEXPIRE", "k", "30000"]);
}

/// Whether this claim of a waiter of Redisson is granted.
fn java_claims(server: &RedisServer, owner: &str, wait: i64) -> bool {
    let args = [JAVA_CLAIMS, "3", "k", QUEUE, DEADLINES, owner, &wait.to_string(), &now_ms().to_string()];
    server.cmd(&[&["EVAL"], &args[..]].concat()).int() == 1
}

/// Lets these seconds pass, in steps of a minute. The claims are renewed in each step.
async fn pass_time(server: &RedisServer, redis: &Redis, seconds: i64, claims: &[&Claim]) {
    for step in (0..seconds).step_by(60) {
        let ms = 1000 * (seconds - step).min(60);
        for owner in server.cmd(&["ZRANGE", DEADLINES, "0", "-1"]).texts() {
            server.cmd(&["ZINCRBY", DEADLINES, &(-ms).to_string(), &owner]);
        }
        for claim in claims {
            assert_eq!(renew(redis, claim).await.unwrap(), Renewal::Waiting { is_next: false });
        }
    }
}

fn left(server: &RedisServer, owner: &str) -> i64 {
    deadline(server, owner) - now_ms()
}

#[tokio::test]
async fn a_grant_after_a_long_wait_leaves_the_others_their_places() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let [first, second, last] = [fair("k"), fair("k"), fair("k")];
    java_holds(&server);
    ahead(&redis, &first).await;
    ahead(&redis, &second).await;
    java_waits(&server, JAVA, deadline(&server, &second.id.to_string()) + WAIT);
    ahead(&redis, &last).await;
    let java_before = left(&server, JAVA);
    pass_time(&server, &redis, 8 * 60, &[&first, &second, &last]).await;
    // The deadlines of Redisson's waiters are not put off.
    assert!((java_before - 8 * 60_000 - left(&server, JAVA)).abs() < 10_000);
    server.cmd(&["DEL", "k"]);
    let [one, two, three] = [&first, &second, &last].map(|claim| claim.id.to_string());
    assert_eq!(queue(&server), [&one, &two, JAVA, &three]);
    for (claim, behind) in [(&first, vec![&two[..], JAVA, &three]), (&second, vec![JAVA, &three])] {
        assert!(is_granted(&redis, claim).await);
        assert!(!java_claims(&server, JAVA, WAIT));
        assert_eq!(queue(&server), behind);
        release(&redis, claim).await.unwrap();
    }
    assert!(java_claims(&server, JAVA, WAIT));
    assert!(left(&server, &three) > 0);
    assert!(!java_claims(&server, HOLDER, WAIT));
    assert_eq!(renew(&redis, &last).await.unwrap(), Renewal::Waiting { is_next: false });
    server.cmd(&["DEL", "k"]);
    assert!(is_granted(&redis, &last).await);
}

/// The waiter of Redisson has a wait time of its own, and takes this time off.
#[tokio::test]
async fn a_grant_of_redisson_after_a_long_wait_leaves_our_claim_its_place() {
    const LONG_WAIT: i64 = 355_000;
    let server = RedisServer::start();
    let redis = backend(&server);
    let (ours, next) = (fair("k"), fair("k"));
    java_holds(&server);
    java_waits(&server, JAVA, now_ms() + 30_000 + LONG_WAIT);
    ahead(&redis, &ours).await;
    ahead(&redis, &next).await;
    pass_time(&server, &redis, 350, &[&ours, &next]).await;
    server.cmd(&["DEL", "k"]);
    assert!(java_claims(&server, JAVA, LONG_WAIT));
    assert!(!java_claims(&server, HOLDER, WAIT));
    assert_eq!(queue(&server), [ours.id.to_string(), next.id.to_string()]);
    assert_eq!(ahead(&redis, &ours).await, Some(0));
    assert_eq!(ahead(&redis, &next).await, Some(1));
}

/// A claim that puts off its deadline does not get a later deadline than the claims behind it.
#[tokio::test]
async fn deadlines_that_are_put_off_keep_their_order() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let claims: Vec<Claim> = (0..4).map(|_| fair("k")).collect();
    java_holds(&server);
    for claim in &claims {
        ahead(&redis, claim).await;
    }
    let owners: Vec<String> = claims.iter().map(|claim| claim.id.to_string()).collect();
    for renewed in [1, 0, 3, 2] {
        pass_time(&server, &redis, 5 * 60, &[&claims[renewed]]).await;
        assert_eq!(server.cmd(&["ZRANGE", DEADLINES, "0", "-1"]).texts(), owners);
        for (ahead, owner) in (0..).zip(&owners) {
            assert!(left(&server, owner) > ahead * WAIT, "{ahead} are before it: {}", left(&server, owner));
        }
    }
}

/// Only our deadlines are put off, so they come after the deadlines of the waiters of Redisson behind us. If our client
/// dies, these waiters wait for our deadline.
#[tokio::test]
async fn a_claim_at_the_head_does_not_put_off_its_deadline_for_the_waiters_behind_it() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let (holder, first) = (fair("k"), fair("k"));
    assert!(is_granted(&redis, &holder).await);
    ahead(&redis, &first).await;
    let ours = first.id.to_string();
    let behind: Vec<String> = (0..10).map(|number| format!("{}:{number}", &JAVA[..36])).collect();
    for (number, owner) in (1..).zip(&behind) {
        java_waits(&server, owner, deadline(&server, &ours) + number * WAIT);
    }
    for _ in 0..40 {
        pass_time(&server, &redis, 60, &[&first]).await;
        assert!(left(&server, &ours) <= WAIT, "{}", left(&server, &ours));
        assert!(left(&server, &ours) > -1000);
    }
    // A second claim of ours, behind the waiters, has the margin of its position.
    let second = fair("k");
    ahead(&redis, &second).await;
    pass_time(&server, &redis, 600, &[&first, &second]).await;
    assert!(left(&server, &ours) <= WAIT, "{}", left(&server, &ours));
    let margin = 10 * WAIT..=13 * WAIT;
    assert!(margin.contains(&left(&server, &second.id.to_string())));
    // The grant leaves the first claim no more than the time of its position.
    release(&redis, &holder).await.unwrap();
    assert!(is_granted(&redis, &first).await);
    assert_eq!(queue(&server).len(), 11);
    assert!(left(&server, &second.id.to_string()) >= 9 * WAIT);
}

/// A waiter of Redisson sleeps until the ttl or the deadline that it has seen. So it is notified when it becomes the first
/// because our claim before it is dead.
#[tokio::test]
async fn the_removal_of_a_dead_first_claim_notifies_the_next_waiter() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let mut messages = subscriber(&server, &format!("redisson_lock__channel:{{k}}:{JAVA}"));
    // The step that removes the dead claim is the renewal of a waiting claim, or a claim that does not join.
    for by_renewal in [true, false] {
        java_holds(&server);
        let (dead, last) = (fair("k"), fair("k"));
        assert_eq!(ahead(&redis, &dead).await, Some(0));
        java_waits(&server, JAVA, deadline(&server, &dead.id.to_string()) + WAIT);
        assert_eq!(ahead(&redis, &last).await, Some(2));
        server.cmd(&["ZADD", "bandog:waiting:{k}", "1", &dead.id.to_string()]);
        let step = async || {
            if by_renewal {
                assert_eq!(renew(&redis, &last).await.unwrap(), Renewal::Waiting { is_next: false });
            } else {
                assert!(!is_granted(&redis, &Claim { joins: false, ..fair("k") }).await);
            }
        };
        server.cmd(&["DEL", "k"]); // An unlock of Redisson does this. Its message is for the dead claim.
        step().await;
        assert_eq!(messages.read().unwrap().texts()[2], "0", "by renewal: {by_renewal}");
        assert_eq!(queue(&server), [JAVA.to_owned(), last.id.to_string()]);
        step().await;
        no_message(&mut messages);
        server.cmd(&["FLUSHALL"]);
    }
}
