//! Servers that lose data, stop, refuse or vanish.

use std::{
    io::{Read, Write},
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use bandog_core::{Answer, Error, ErrorKind, Leases, Released, Renewal, Step, Verdict};
use bandog_redis::{Redis, RedisOptions};
use bandog_testkit::{RedisServer, Wire, eventually_async};
use futures_util::future::join_all;

use crate::help::{SOON, at, backend, claim, fences, granted, lock_user_url, pass, release, renew, take, with_timeout};

const SHORT: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_call_is_repeated_after_the_server_has_lost_the_scripts() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let held = claim("k");
    fences(&redis, &held).await;
    for _ in 0..3 {
        server.flush_scripts();
        let steps = [Step::Release(held.clone()), Step::Claim(held.clone())];
        let answers = redis.apply(&steps).await;
        assert!(matches!(answers[0], Ok(Answer::Released(Released::Freed { .. }))), "{answers:?}");
        assert!(matches!(answers[1], Ok(Answer::Claimed(Verdict::Granted { .. }))), "{answers:?}");
        server.flush_scripts();
        assert_eq!(renew(&redis, &held).await.unwrap(), Renewal::Extended { valid_for: held.ttl });
        assert_eq!(server.calls("eval"), 0, "the scripts are loaded, not sent with each call");
    }
}

// Promise: RD6
#[tokio::test]
async fn a_restart_without_data_raises_the_epoch_and_loses_the_hold() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let held = claim("k");
    fences(&redis, &held).await;
    let mut epoch = redis.profile().epoch;
    let before = *epoch.borrow_and_update();
    assert_eq!(before, 1);
    server.restart();
    tokio::time::timeout(SOON, epoch.changed()).await.unwrap().unwrap();
    assert!(*epoch.borrow() > before);
    assert_eq!(renew(&redis, &held).await.unwrap(), Renewal::Gone);
}

#[tokio::test]
async fn without_a_server_a_call_fails_soon_and_was_not_applied() {
    let server = RedisServer::start();
    server.kill();
    let redis = backend(&server);
    let wanted = claim("k");
    let start = Instant::now();
    for error in [
        take(&redis, &wanted).await.map(|_| ()).unwrap_err(),
        release(&redis, &wanted).await.map(|_| ()).unwrap_err(),
        renew(&redis, &wanted).await.map(|_| ()).unwrap_err(),
    ] {
        surely_not_applied(&error);
        assert_eq!(error.key(), Some(&wanted.key));
        assert!(error.to_string().contains(&server.port().to_string()), "{error}");
    }
    let error = redis.ping().await.unwrap_err();
    assert_eq!((error.kind(), error.verb()), (ErrorKind::Unavailable, Some("connect")));
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    server.restart();
    eventually_async(SOON, async || take(&redis, &wanted).await).await;
}

#[tokio::test]
async fn the_client_reconnects_without_a_call() {
    let server = RedisServer::start();
    let wire = server.wire();
    let redis = at(&lock_user_url(wire.addr()));
    redis.ping().await.unwrap();
    let mut epoch = redis.profile().epoch;
    for _ in 0..3 {
        epoch.borrow_and_update();
        wire.refuse(true);
        wire.cut();
        tokio::time::sleep(Duration::from_millis(300)).await;
        wire.refuse(false);
        let back = Instant::now();
        tokio::time::timeout(SOON, epoch.changed()).await.unwrap().unwrap();
        assert!(back.elapsed() < SOON / 2, "{:?}", back.elapsed());
    }
}

#[tokio::test]
async fn a_server_that_closes_every_connection_is_dialled_with_backoff() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let dials = Arc::new(AtomicUsize::new(0));
    let counted = dials.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            counted.fetch_add(1, Ordering::SeqCst);
            drop(stream);
        }
    });
    let redis = at(&url);
    let start = Instant::now();
    // On a loaded machine, five attempts can take longer.
    while start.elapsed() < Duration::from_secs(1) || dials.load(Ordering::SeqCst) < 5 {
        surely_not_applied(&take(&redis, &claim("k")).await.unwrap_err());
    }
    let (dials, seconds) = (dials.load(Ordering::SeqCst), start.elapsed().as_secs_f64());
    assert!(dials as f64 <= 20.0 * seconds, "{dials} in {seconds} s");
}

// Promise: RD7
#[tokio::test]
async fn a_request_without_an_answer_is_applied_later_and_can_be_repeated() {
    let server = RedisServer::start();
    let redis = with_timeout(&lock_user_url(server.addr()), SHORT);
    redis.ping().await.unwrap();
    let (first, second) = (claim("k"), claim("other"));
    fences(&redis, &second).await;
    server.pause();
    let start = Instant::now();
    let answers = redis.apply(&[Step::Claim(first.clone()), Step::Release(second.clone())]).await;
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    for answer in answers {
        ambiguous(&answer.unwrap_err());
    }
    server.resume();
    // The server applies the requests in its buffer.
    eventually_async(SOON, async || server.hash("k").len() == 1 && server.hash("other").is_empty()).await;
    let token = server.cmd(&["GET", "redisson_lock_token:{k}"]).text().to_owned();
    let block = eventually_async(SOON, async || take(&redis, &first).await).await;
    assert_eq!(granted(block).last().to_string(), token);
    assert_eq!(release(&redis, &second).await.unwrap(), Released::NotHeld);
    assert!(matches!(release(&redis, &first).await.unwrap(), Released::Freed { .. }));
}

#[tokio::test]
async fn a_connection_without_an_answer_to_two_requests_is_replaced() {
    let server = RedisServer::start();
    let wire = server.wire();
    let redis = with_timeout(&lock_user_url(wire.addr()), SHORT);
    let held = claim("k");
    fences(&redis, &held).await;
    wire.drop_replies(true);
    ambiguous(&renew(&redis, &held).await.unwrap_err());
    assert_eq!(wire.accepted(), 1, "the connection was replaced after only one missing answer");
    ambiguous(&renew(&redis, &held).await.unwrap_err());
    eventually_async(SOON, async || wire.accepted() >= 2).await;
    wire.drop_replies(false);
    eventually_async(SOON, async || renew(&redis, &held).await).await;
}

#[tokio::test]
async fn an_answer_after_each_timeout_keeps_the_connection() {
    let server = RedisServer::start();
    let redis = with_timeout(&lock_user_url(server.addr()), SHORT);
    let held = claim("k");
    fences(&redis, &held).await;
    for _ in 0..3 {
        server.pause();
        ambiguous(&renew(&redis, &held).await.unwrap_err());
        server.resume();
        renew(&redis, &held).await.unwrap();
    }
    assert_eq!(*redis.profile().epoch.borrow(), 1);
}

#[tokio::test]
async fn a_connection_that_is_replaced_ends_with_a_reset() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let redis = with_timeout(&format!("redis://{}", listener.local_addr().unwrap()), SHORT);
    let end = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = [0; 64 << 10];
        assert!(stream.read(&mut buffer).unwrap() > 0);
        stream.write_all(b"%0\r\n").unwrap();
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) => return Err(error.kind()),
            }
        }
    });
    for _ in 0..2 {
        ambiguous(&take(&redis, &claim("k")).await.unwrap_err());
    }
    assert_eq!(
        tokio::task::spawn_blocking(|| end.join().unwrap()).await.unwrap(),
        Err(std::io::ErrorKind::ConnectionReset)
    );
}

#[tokio::test]
async fn a_claim_on_a_breaking_connection_is_immediately_ambiguous() {
    let server = RedisServer::start();
    let wire = server.wire();
    let redis = at(&lock_user_url(wire.addr()));
    let held = claim("k");
    redis.ping().await.unwrap();
    wire.drop_replies(true);
    let cut = async {
        eventually_async(SOON, async || server.hash("k").len() == 1).await;
        wire.drop_replies(false);
    };
    let start = Instant::now();
    let (answer, ()) = tokio::join!(take(&redis, &held), cut);
    ambiguous(&answer.unwrap_err());
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    eventually_async(SOON, async || release(&redis, &held).await).await;
    assert!(server.hash("k").is_empty());
}

#[tokio::test]
async fn a_wrong_password_is_reported_immediately_and_retried_only_by_a_call() {
    let server = RedisServer::start_with(&["--requirepass", "right"]);
    let wire = server.wire();
    let (named, default) = ("write USER:PASSWORD@ directly after ://", "write :PASSWORD@ directly after ://");
    for (login, part, cure) in [
        (":wrong@", "refuses this password", default),
        ("nobody:right@", "refuses this user or password", named),
        ("right@", "refuses this user or password", "or :PASSWORD@ directly after :// for the user \"default\""),
        ("", "requires a password", default),
    ] {
        let before = wire.accepted();
        let redis = at(&format!("redis://{login}{}", wire.addr()));
        let start = Instant::now();
        let error = redis.ping().await.unwrap_err();
        assert!(start.elapsed() < SOON / 2, "{:?}", start.elapsed());
        assert_eq!((error.kind(), error.is_retryable(), error.maybe_applied()), (ErrorKind::Denied, false, false));
        let text = error.to_string();
        assert!(text.contains(part) && text.contains(cure), "{text}");
        assert!(!["wrong", "right", "nobody"].iter().any(|secret| text.contains(secret)), "{text}");
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(wire.accepted() - before, 1, "the client tried to connect again without a call");
        let wanted = claim("k");
        let error = take(&redis, &wanted).await.unwrap_err();
        assert_eq!((error.kind(), error.verb(), error.key()), (ErrorKind::Denied, Some("claim"), Some(&wanted.key)));
        assert_eq!(wire.accepted() - before, 2);
    }
    let redis = at(&format!("redis://:wrong@{}", wire.addr()));
    redis.ping().await.unwrap_err();
    server.cmd(&["CONFIG", "SET", "requirepass", "wrong"]);
    redis.ping().await.unwrap();
}

#[tokio::test]
async fn a_database_that_does_not_exist_is_denied() {
    let server = RedisServer::start();
    let error = at(&format!("{}/99", server.url())).ping().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(error.to_string().contains("database"), "{error}");
}

#[tokio::test]
async fn a_server_with_too_many_clients_is_unavailable() {
    let server = RedisServer::start();
    let mut last = server.client();
    last.cmd(&["CONFIG", "SET", "maxclients", "1"]).unwrap();
    let redis = backend(&server);
    let error = take(&redis, &claim("k")).await.unwrap_err();
    surely_not_applied(&error);
    assert!(error.to_string().contains("max number of clients"), "{error}");
    last.cmd(&["CONFIG", "SET", "maxclients", "100"]).unwrap();
    eventually_async(SOON, async || take(&redis, &claim("k")).await).await;
}

#[tokio::test]
async fn a_server_that_refuses_requests_for_some_time_changes_nothing() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let (held, next) = (claim("held"), claim("held"));
    fences(&redis, &held).await;
    let (before, keys) = (server.hash("held"), server.keys());
    for (bad, good) in [
        (["CONFIG", "SET", "maxmemory", "1"], ["CONFIG", "SET", "maxmemory", "0"]),
        (["CONFIG", "SET", "min-replicas-to-write", "1"], ["CONFIG", "SET", "min-replicas-to-write", "0"]),
    ] {
        server.cmd(&bad);
        surely_not_applied(&take(&redis, &claim("free")).await.unwrap_err());
        surely_not_applied(&pass(&redis, &held, &next).await.unwrap_err());
        assert_eq!((server.hash("held"), server.keys()), (before.clone(), keys.clone()), "{bad:?}");
        server.cmd(&good);
    }
    server.cmd(&["REPLICAOF", "127.0.0.1", "1"]);
    for error in [
        take(&redis, &claim("free")).await.map(|_| ()).unwrap_err(),
        release(&redis, &held).await.map(|_| ()).unwrap_err(),
        renew(&redis, &held).await.map(|_| ()).unwrap_err(),
    ] {
        surely_not_applied(&error);
    }
    server.cmd(&["REPLICAOF", "NO", "ONE"]);
    renew(&redis, &held).await.unwrap();
}

#[tokio::test]
async fn a_server_busy_with_a_script_is_unavailable() {
    let server = RedisServer::start_with(&["--lua-time-limit", "1"]);
    let redis = backend(&server);
    redis.ping().await.unwrap();
    let mut client = server.client();
    client.send(&["EVAL", "while true do end", "0"]).unwrap();
    eventually_async(SOON, async || {
        let error = take(&redis, &claim("k")).await.map(|_| ()).err()?;
        surely_not_applied(&error);
        error.to_string().contains("BUSY").then_some(())
    })
    .await;
    server.cmd(&["SCRIPT", "KILL"]);
}

#[tokio::test]
async fn calls_that_wait_for_the_connection_are_sent_in_their_order() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let claims: Vec<_> = (0..200).map(|_| claim("k")).collect();
    let steps: Vec<_> =
        claims.iter().flat_map(|one| [[Step::Claim(one.clone())], [Step::Release(one.clone())]]).collect();
    for round in 0..3 {
        // When one of these calls is first polled, the calls before it have no answer yet.
        let answers = join_all(steps.iter().map(|step| redis.apply(step))).await;
        for (number, answer) in answers.into_iter().flatten().enumerate() {
            let answer = format!("{:?}", answer.unwrap());
            assert!(answer.contains(["Granted", "Freed"][number % 2]), "{round}: {number} {answer}");
        }
        if round == 0 {
            break_and_wait(&server, &redis).await;
        }
    }
}

#[tokio::test]
async fn a_call_on_a_ready_connection_does_not_overtake_waiting_calls() {
    let server = RedisServer::start();
    let redis = Arc::new(backend(&server));
    let mut epoch = redis.profile().epoch;
    let late = tokio::spawn({
        let redis = redis.clone();
        async move {
            epoch.changed().await.unwrap();
            take(&redis, &claim("k")).await
        }
    });
    // Each call has its own task, so the late call might run between any two of the waiting calls.
    let call = |step: Step| {
        tokio::spawn({
            let redis = redis.clone();
            async move { redis.apply(&[step]).await.remove(0) }
        })
    };
    let claims: Vec<_> = (0..20).map(|_| claim("k")).collect();
    let waiting: Vec<_> =
        claims.iter().flat_map(|one| [call(Step::Claim(one.clone())), call(Step::Release(one.clone()))]).collect();
    for (number, answer) in waiting.into_iter().enumerate() {
        let answer = format!("{:?}", answer.await.unwrap().unwrap());
        assert!(answer.contains(["Granted", "Freed"][number % 2]), "{number} {answer}");
    }
    granted(late.await.unwrap().unwrap());
}

#[test]
fn a_backend_connects_on_a_new_runtime_after_the_first_has_ended() {
    let server = RedisServer::start();
    let redis = backend(&server);
    let held = claim("k");
    for _ in 0..3 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(fences(&redis, &held));
    }
    assert_eq!(*redis.profile().epoch.borrow(), 3);
}

#[tokio::test]
async fn a_backend_that_is_dropped_closes_its_connections() {
    let server = RedisServer::start();
    let wire: Wire = server.wire();
    let redis = at(&lock_user_url(wire.addr()));
    redis.ping().await.unwrap();
    assert_eq!(wire.open(), 1);
    drop(redis);
    eventually_async(SOON, async || wire.open() == 0).await;
}

#[tokio::test]
async fn a_backend_does_nothing_before_its_first_call_and_shows_no_secret() {
    let redis = at("redis://user:secret@127.0.0.1:1/3");
    assert_eq!(redis.profile().store, "redis://127.0.0.1:1/3");
    let text = format!("{redis:?}");
    assert!(text.contains("127.0.0.1:1") && !text.contains("secret") && !text.contains("user"), "{text}");
    assert_eq!(*redis.profile().epoch.borrow(), 0);
    for wrong in [Duration::ZERO, Duration::MAX] {
        let options = RedisOptions::from_url("redis://h").unwrap().timeout(wrong);
        assert_eq!(Redis::new(options).unwrap_err().kind(), ErrorKind::Misused);
    }
}

async fn break_and_wait(server: &RedisServer, redis: &Redis) {
    let mut epoch = redis.profile().epoch;
    epoch.borrow_and_update();
    server.kill_clients();
    tokio::time::timeout(SOON, epoch.changed()).await.unwrap().unwrap();
}

#[track_caller]
fn ambiguous(error: &Error) {
    assert_eq!((error.kind(), error.maybe_applied()), (ErrorKind::Unavailable, true), "{error}");
}

#[track_caller]
fn surely_not_applied(error: &Error) {
    assert_eq!((error.kind(), error.maybe_applied()), (ErrorKind::Unavailable, false), "{error}");
}
