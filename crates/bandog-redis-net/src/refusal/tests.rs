use super::*;

#[test]
fn every_refusal_has_a_meaning() {
    for (text, kind, maybe_applied) in [
        ("WRONGTYPE Operation against a key holding the wrong kind of value", Denied, false),
        ("NOPERM this user has no permissions to run the 'evalsha' command", Denied, false),
        ("NOAUTH Authentication required.", Denied, false),
        ("WRONGPASS invalid username-password pair or user is disabled.", Denied, false),
        ("ERR The user executing the script can't run this command or subcommand script: 6f", Denied, false),
        ("ERR unknown command 'EVALSHA', with args beginning with: ", Denied, false),
        ("CORRUPT the fencing token", Corrupt, false),
        ("NOSCRIPT No matching script. Please use EVAL.", Unavailable, false),
        ("READONLY You can't write against a read only replica. script: 6f, on @user_script:9.", Unavailable, false),
        ("OOM command not allowed when used memory > 'maxmemory'.", Unavailable, false),
        ("LOADING Redis is loading the dataset in memory", Unavailable, false),
        ("MOVED 3999 127.0.0.1:6381", Unsupported, false),
        ("CROSSSLOT Keys in request don't hash to the same slot", Unsupported, false),
        ("DENIED Redis is running in protected mode because", Denied, false),
        ("ERR no upstream host", Unavailable, true),
        ("UPSTREAM gone", Unavailable, true),
    ] {
        let error = refused(&reply(text));
        assert_eq!((error.kind(), error.maybe_applied()), (kind, maybe_applied), "{text}");
    }
}

/// A sentinel knows no commands for data. The first command of a client is EVALSHA, GET on a quorum, or CLUSTER on a
/// cluster.
#[test]
fn a_server_without_the_first_commands_may_be_a_sentinel() {
    for command in ["EVALSHA", "EVAL", "GET", "SET", "CLUSTER"] {
        let error = refused(&reply(&format!("ERR unknown command '{command}', with args beginning with: 'x' ")));
        assert!(error.to_string().contains("redis+sentinel://HOST:PORT/MASTER"), "{error}");
        assert_eq!(error.kind(), Denied);
    }
    let error = refused(&reply("ERR unknown command 'HSCAN', with args beginning with: 'x' "));
    assert!(!error.to_string().contains("sentinel"), "{error}");
}

#[test]
fn a_refused_command_is_distinguished_from_a_refusal_inside_a_script() {
    for (text, refused) in [
        ("NOPERM this user has no permissions to run the 'evalsha' command or its subcommand", true), // 6.2
        ("NOPERM User u has no permissions to run the 'evalsha' command", true),                      // 7.0 and later
        ("ERR unknown command `EVALSHA`, with args beginning with: `6f`, ", true),                    // 6.2
        ("ERR unknown command 'EVALSHA', with args beginning with: '6f' ", true),
        ("NOPERM User u has no permissions to run the 'eval' command", false),
        ("NOPERM User u has no permissions to access the 'evalsha' key", false),
        ("ERR unknown command 'EVAL', with args beginning with: 'EVALSHA' ", false),
        ("ERR ACL failure in script: User u has no permissions to run the 'evalsha' command", false),
        ("NOSCRIPT No matching script. Please use EVAL.", false),
    ] {
        let value = Value::ServerError(reply(text));
        assert_eq!(is_command_refused(&value, "EVALSHA"), refused, "{text}");
    }
    assert!(!is_command_refused(&Value::Int(1), "EVALSHA"));
}

/// Checks each kind of error with the texts of every version of Redis and Valkey. Some texts are the error with which
/// the script failed. The other texts are errors that the script returned as elements of a list.
#[test]
fn an_error_inside_a_script_has_the_same_kind_on_every_version() {
    let of_6 = "ERR Error running script (call to f_6f): @user_script:14: ";
    let right = "The user executing the script can't run this command or subcommand";
    let key = "The user executing the script can't access at least one of the keys mentioned in the command arguments";
    let channel = "The user executing the script can't publish to the channel mentioned in the command";
    let acl = "ERR ACL failure in script:";
    let at = "script: 6f, on @user_script:1.";
    for (text, kind) in [
        // Redis 6.2.
        (format!("{of_6}WRONGTYPE Operation against a key holding the wrong kind of value"), Denied),
        (format!("{of_6}@user_script: 14: {right}"), Denied),
        (format!("@user_script: 14: {right}"), Denied),
        (format!("@user_script: 14: {key}"), Denied),
        (format!("@user_script: 14: {channel}"), Denied),
        (format!("{of_6}@user_script: 14: Unknown Redis command called from Lua script"), Denied),
        (format!("{of_6}@user_script: 14: -OOM command not allowed when used memory > 'maxmemory'."), Unavailable),
        ("@user_script: 14: -OOM command not allowed when used memory > 'maxmemory'.".into(), Unavailable),
        (format!("{of_6}@user_script: 14: -READONLY You can't write against a read only replica."), Unavailable),
        ("@user_script: 14: -NOREPLICAS Not enough good replicas to write.".into(), Unavailable),
        ("@user_script: 14: -MISCONF Redis is configured to save RDB snapshots, but".into(), Unavailable),
        // Redis 7.0.
        (format!("WRONGTYPE Operation against a key holding the wrong kind of value {at}"), Denied),
        (format!("ERR {right} {at}"), Denied),
        (format!("ERR {key}"), Denied),
        (format!("ERR Unknown Redis command called from script {at}"), Denied),
        // Redis 7.2 and 8, Valkey.
        (format!("{acl} User low has no permissions to run the 'get' command {at}"), Denied),
        (format!("{acl} User low has no permissions to run the 'get' command script: on @user_script:1."), Denied),
        (format!("{acl} No permissions to access a key"), Denied),
        (format!("{acl} No permissions to access a channel"), Denied),
        (format!("ERR Unknown command called from script {at}"), Denied),
        (format!("OOM command not allowed when used memory > 'maxmemory'. {at}"), Unavailable),
        ("BUSY Valkey is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.".into(), Unavailable),
        ("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.".into(), Unavailable),
    ] {
        let error = refused(&reply(&text));
        assert_eq!((error.kind(), error.maybe_applied()), (kind, false), "{text}");
        assert_eq!(error.is_retryable(), kind == Unavailable, "{text}");
    }
}

#[test]
fn after_an_unknown_error_inside_a_script_the_command_may_have_been_applied() {
    for text in [
        "ERR Error running script (call to f_6f): @user_script:1: Script killed by user with SCRIPT KILL...",
        "ERR Error running script (call to f_6f): @user_script:1: user_script:1: OOM in my words",
        "ERR user_script:1: my words script: 6f, on @user_script:1.",
        "ERR WRONGTYPE is what a proxy says",
        "ERR",
        "@user_script:",
    ] {
        let error = refused(&reply(text));
        assert_eq!((error.kind(), error.maybe_applied()), (Unavailable, true), "{text}");
    }
}

#[test]
fn a_denied_key_and_a_denied_command_are_distinguished_on_every_version() {
    for (text, is_out) in [
        ("NOPERM this user has no permissions to access one of the keys used as arguments", true),
        ("NOPERM No permissions to access a key", true),
        ("NOPERM User u has no permissions to access the 'k' key", true),
        ("ERR ACL failure in script: No permissions to access a key", true),
        ("NOPERM this user has no permissions to run the 'keys' command", false),
        ("NOPERM User u has no permissions to run the 'keys' command", false),
        ("NOPERM No permissions to access a channel", false),
        ("WRONGTYPE Operation against a key holding the wrong kind of value", false),
    ] {
        assert_eq!(is_out_of_reach(&reply(text)), is_out, "{text}");
    }
}

#[test]
fn a_refused_handshake_applied_nothing() {
    for (text, kind) in [("ERR max number of clients reached", Unavailable), ("WRONGPASS no", Denied)] {
        let error = handshake_error("redis://h:6379/0", &reply(text));
        assert_eq!((error.kind(), error.maybe_applied()), (kind, false), "{text}");
        assert!(error.to_string().starts_with("redis://h:6379/0: Redis "), "{error}");
    }
}

fn reply(text: &str) -> ServerError {
    let value = redis::parse_redis_value(format!("-{text}\r\n").as_bytes()).unwrap();
    let redis::Value::ServerError(error) = value else { panic!("{value:?}") };
    error
}

#[test]
fn fuzz_refusals() {
    let samples = [
        "-ERR Error running script (call to f_6f): @user_script:14: @user_script: 14: -WRONGTYPE Operation\r\n",
        "-NOPERM this user has no permissions to access one of the keys used as arguments\r\n",
        "-ERR unknown command 'EVALSHA', with args beginning with: \r\n",
        "-CORRUPT the fencing token\r\n",
        ":1\r\n",
    ];
    let samples = samples.map(str::as_bytes);
    let words = ["\r\n", "-ERR x\r\n", "@user_script:", ": ", "unknown command", "NOPERM ", "'"];
    bandog_testkit::fuzz::bytes("refusals", &samples, &words, |bytes| {
        let Ok(value) = redis::parse_redis_value(bytes) else { return false };
        let Value::ServerError(error) = &value else { return false };
        let meaning = refused(error);
        assert!(meaning.maybe_applied() <= meaning.is_retryable(), "{error}: {meaning}");
        let _ = (is_denied(error), is_out_of_reach(error), is_lasting(error), is_no_script(&value));
        let _ = is_command_refused(&value, "EVALSHA");
        true
    });
}
