//! Servers that accept only short arguments.

use std::time::{Duration, Instant};

use bandog_core::{
    Error, ErrorKind, Key, Result,
    queues::{Push, Queues},
    structures::{Op, Reply, SetTtl, Structures, ValueOp},
};
use bandog_redis_data::RedisObjects;
use bandog_testkit::RedisServer;

use super::kit::{new, queue};
use crate::at;

/// The lowest limit that a server can have.
const LIMIT: usize = 1 << 20;
/// A time that is less than that for which calls are repeated.
const AT_ONCE: Duration = Duration::from_secs(5);

fn server() -> RedisServer {
    RedisServer::start_with(&["--proto-max-bulk-len", &LIMIT.to_string()])
}

/// A client that may not read the settings.
fn without_config(server: &RedisServer) -> std::sync::Arc<RedisObjects> {
    server.cmd(&["ACL", "SETUSER", "few", "on", ">PASSWORD", "~*", "&*", "+@all", "-config"]);
    at(&server.url().replace("redis://", "redis://few:PASSWORD@"))
}

/// Writes values of these lengths in one request.
async fn write(store: &RedisObjects, lengths: &[usize]) -> Vec<Result<Reply>> {
    let set = |(at, length): (usize, &usize)| {
        let value = vec![b'x'; *length];
        Op::new(&Key::new(format!("v{at}")).unwrap(), ValueOp::Set(value, SetTtl::Clear))
    };
    store.run(&lengths.iter().enumerate().map(set).collect::<Vec<_>>()).await
}

#[track_caller]
fn assert_too_long(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Misused, "{error}");
    assert!(error.to_string().contains("proto-max-bulk-len") && !error.maybe_applied(), "{error}");
}

/// The ids of the connections of clients.
fn connections(server: &RedisServer) -> Vec<String> {
    let list = server.cmd(&["CLIENT", "LIST"]).text().to_owned();
    let ours = list.lines().filter(|line| line.contains("name=bandog "));
    ours.filter_map(|line| line.split(' ').next().map(str::to_owned)).collect()
}

#[tokio::test]
async fn a_value_that_is_too_long_is_refused_and_the_others_are_written() {
    let server = server();
    let store = at(&server.url());
    assert!(write(&store, &[1]).await[0].is_ok());
    let before = connections(&server);
    let replies = write(&store, &[1, LIMIT + 1, LIMIT, 3 * LIMIT, 2]).await;
    for (at, reply) in replies.iter().enumerate() {
        match reply {
            Ok(_) => assert!([0, 2, 4].contains(&at)),
            Err(error) => assert_too_long(error),
        }
    }
    assert_eq!(
        [1, LIMIT, 2],
        [0, 2, 4].map(|at| usize::try_from(server.cmd(&["STRLEN", &format!("v{at}")]).int()).unwrap())
    );
    assert_eq!(connections(&server), before, "no connection was lost");
    // A limit that is another one now is found.
    server.cmd(&["CONFIG", "SET", "proto-max-bulk-len", &(4 * LIMIT).to_string()]);
    assert!(write(&store, &[LIMIT + 1, 3 * LIMIT]).await.iter().all(Result::is_ok));
}

#[tokio::test]
async fn a_server_that_does_not_say_what_it_accepts_refuses_one_value() {
    let server = server();
    let store = without_config(&server);
    for _ in 0..5 {
        let begin = Instant::now();
        let replies = write(&store, &[1, LIMIT, 5 * LIMIT, 2]).await;
        assert!(begin.elapsed() < AT_ONCE);
        assert!(replies[..2].iter().all(Result::is_ok), "{replies:?}");
        assert_too_long(replies[2].as_ref().unwrap_err());
        let unsent = replies[3].as_ref().unwrap_err();
        assert!(unsent.is_retryable() && !unsent.maybe_applied(), "{unsent}");
        // The next call uses another connection.
        let next = write(&store, &[1, LIMIT, 3]).await;
        assert!(next.iter().all(Result::is_ok), "{next:?}");
    }
}

#[tokio::test]
async fn other_calls_on_the_connection_can_be_repeated() {
    let server = server();
    let store = without_config(&server);
    let long = async {
        let mut errors = Vec::new();
        for _ in 0..10 {
            errors.extend(write(&store, &[8 * LIMIT]).await.pop().unwrap().err());
        }
        errors
    };
    let short = async {
        let mut kinds = Vec::new();
        for _ in 0..500 {
            kinds.extend(write(&store, &[1]).await.pop().unwrap().err());
        }
        kinds
    };
    let (long, short) = tokio::join!(long, short);
    assert_eq!(long.len(), 10);
    long.iter().for_each(assert_too_long);
    assert!(short.iter().all(Error::is_retryable), "{short:?}");
}

#[tokio::test]
async fn a_buffer_that_is_too_small_is_found_too() {
    let server = RedisServer::start_with(&["--client-query-buffer-limit", "1mb"]);
    let store = at(&server.url());
    let replies = write(&store, &[LIMIT / 2, LIMIT]).await;
    assert!(replies[0].is_ok());
    let error = replies[1].as_ref().unwrap_err();
    assert!(error.kind() == ErrorKind::Misused && error.to_string().contains("client-query-buffer-limit"), "{error}");
}

#[tokio::test]
async fn a_push_that_is_too_long_is_refused() {
    let server = server();
    for store in [at(&server.url()), without_config(&server)] {
        let push = |length| Push { queue: queue(), elements: vec![new(&"x".repeat(length))] };
        let mut pushed = store.push(&[push(LIMIT), push(LIMIT + 1)]).await;
        assert_too_long(&pushed.pop().unwrap().unwrap_err());
        assert!(pushed.pop().unwrap().is_ok());
    }
}
