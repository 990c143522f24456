//! Commands and scripts go to the server of their keys.

use std::sync::LazyLock;

use bandog_redis_net::{Keys, Script, ScriptForm, Servers};
use bandog_testkit::{RedisCluster, RedisServer, eventually_async};
use redis::{Pipeline, Value};

use crate::{SOON, servers};

static APPEND: LazyLock<Script> =
    LazyLock::new(|| Script::new("return redis.call('append', KEYS[1], ARGV[1]) + #redis.call('get', KEYS[1])"));

/// Calls the script for each of these keys. Returns the replies.
async fn append(servers: &Servers, keys: &[&str]) -> Vec<Value> {
    let pack = |form: ScriptForm| {
        let mut pipe = Pipeline::new();
        for key in keys {
            let mut cmd = APPEND.call(form, 1, 2, 16);
            cmd.arg(key).arg("x");
            pipe.add_command(cmd);
        }
        pipe
    };
    servers.call_scripts(servers.deadline(), Keys::OfScripts, pack).await.unwrap().into_values().unwrap()
}

#[tokio::test]
async fn a_script_runs_also_after_the_server_has_lost_it() {
    let server = RedisServer::start();
    let servers = servers(&server.url(), &[&APPEND]);
    assert_eq!(append(&servers, &["a", "b"]).await, [Value::Int(2), Value::Int(2)]);
    server.flush_scripts();
    assert_eq!(append(&servers, &["a", "b"]).await, [Value::Int(4), Value::Int(4)]);
    server.kill_clients();
    // A call during the fault has no answer. The next connection loads the scripts.
    let mut ping = Pipeline::new();
    ping.cmd("PING");
    eventually_async(SOON, async || servers.call(Keys::None, ping.clone()).await.is_ok()).await;
    assert_eq!(append(&servers, &["b"]).await, [Value::Int(6)]);
}

/// These keys are at three masters. The first argument of XREAD is no key.
#[tokio::test]
async fn each_command_goes_to_the_node_of_its_key() {
    let cluster = RedisCluster::start(3, 0);
    let servers = servers(&cluster.url(), &[&APPEND]);
    let keys = ["a", "b", "c", "d"];
    assert_eq!(append(&servers, &keys).await, vec![Value::Int(2); 4]);
    let (mut add, mut read) = (Pipeline::new(), Pipeline::new());
    for key in keys {
        add.cmd("XADD").arg(format!("{{{key}}}:log")).arg("*").arg("field").arg(key);
        read.cmd("XREAD").arg("COUNT").arg(1).arg("STREAMS").arg(format!("{{{key}}}:log")).arg(0);
    }
    servers.call(Keys::FirstArguments, add).await.unwrap();
    let replies = servers.call(Keys::Each(&keys.map(Some)), read).await.unwrap();
    for (key, reply) in keys.iter().zip(replies) {
        assert!(format!("{reply:?}").contains(&format!("bulk-string('\"{{{key}}}:log\"')")), "{key}: {reply:?}");
    }
    let sizes = servers.masters().await.unwrap();
    assert_eq!(sizes.len(), 3);
    let mut keyless = Pipeline::new();
    keyless.cmd("PING");
    assert_eq!(servers.call(Keys::None, keyless).await.unwrap(), [Value::SimpleString("PONG".into())]);
}
