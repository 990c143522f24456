//! Messages of topics in both directions. Redisson publishes what it receives.

use std::{
    fmt::Debug,
    io::{BufRead, BufReader},
    process::{Child, Stdio},
    time::Duration,
};

use bandog::{
    Pattern,
    grid::{
        ClientGrid, Event, Grid, Subscriber, Topic,
        codec::{Codec, Decode, Encode, Kryo5, Text},
    },
};
use bandog_testkit::RedisServer;
use tokio::time::timeout;

use crate::neighbour::java;

/// Timeout that is reached only if the test fails.
const SOON: Duration = Duration::from_secs(30);

/// A JVM that is killed when this is dropped.
struct Echo(Child);

impl Drop for Echo {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).expect("kill java");
    }
}

impl Echo {
    /// Starts the JVM, and waits until it has subscribed.
    fn start(server: &RedisServer) -> Self {
        let mut java = java("codecs-4.7.0", "bandog.codecs.Topics");
        let java = java.arg(server.url()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut echo = Self(java.spawn().expect("start java"));
        let mut line = String::new();
        BufReader::new(echo.0.stdout.take().expect("the output")).read_line(&mut line).expect("a line");
        assert_eq!(line.trim(), "subscribed");
        echo
    }
}

async fn message<T: Debug>(subscriber: &mut Subscriber<T>) -> T {
    match timeout(SOON, subscriber.next()).await.expect("an answer").expect("a subscription") {
        Event::Message(message) => message,
        other => panic!("{other:?}"),
    }
}

/// Sends each message through Redisson, on all kinds of topics.
async fn echo<T, C>(grid: &Grid, name: &str, codec: C, messages: &[T])
where
    T: Clone + Debug + PartialEq + Send + Sync + 'static,
    C: Codec + Encode<T> + Decode<T>,
{
    let topic = |kind: &str| -> Topic<T, C> {
        let topic = match kind {
            kind if kind.ends_with("sharded") => grid.sharded_topic(format!("{kind}:{name}")),
            kind => grid.topic(format!("{kind}:{name}")),
        };
        topic.expect("a topic").codec(codec.clone())
    };
    let all =
        grid.pattern_topic(Pattern::new(format!("out:pattern:*:{name}"))).expect("a pattern").codec(codec.clone());
    let mut of_all = all.subscribe().await.expect("a subscription");
    for kind in ["plain", "sharded", "pattern:1"] {
        let (there, back) = (topic(&format!("in:{kind}")), topic(&format!("out:{kind}")));
        let mut answers = back.subscribe().await.expect("a subscription");
        for sent in messages {
            assert_eq!(there.publish(sent).await.expect("it is published"), 1, "Redisson subscribes to {kind}");
            assert_eq!(message(&mut answers).await, *sent, "{kind}");
            if kind == "pattern:1" {
                assert_eq!(message(&mut of_all).await, (format!("out:pattern:1:{name}"), sent.clone()));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_pass_between_redisson_and_bandog() {
    let server = RedisServer::start();
    let _echo = Echo::start(&server);
    let grid = bandog::connect(server.url()).await.expect("a client").grid();
    let texts = ["a", "", "中 \u{1F680}", "\"quoted\""].map(String::from);
    echo(&grid, "text", Text, &texts).await;
    echo(&grid, "kryo5", Kryo5, &texts).await;
    echo(&grid, "kryo5", Kryo5, &[0, 1, -1, i64::MAX]).await;
}
