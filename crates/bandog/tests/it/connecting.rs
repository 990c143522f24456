use bandog::{ConnectOptions, ErrorKind, blocking, connect};

// Promise: M1
#[tokio::test]
async fn memory_without_a_name_is_a_new_store_and_with_a_name_is_shared() {
    let (one, other) = (connect("memory:").await.unwrap(), connect("memory:").await.unwrap());
    let _guard = one.mutex("orders").lock().await.unwrap();
    assert!(other.mutex("orders").try_lock().await.unwrap().is_some());

    let (one, other) = (connect("memory:shop").await.unwrap(), connect("memory:shop").await.unwrap());
    let _guard = one.mutex("orders").lock().await.unwrap();
    assert!(other.mutex("orders").try_lock().await.unwrap().is_none());
}

#[tokio::test]
async fn the_urls_watchdog_is_the_ttl() {
    let client = connect("memory:?watchdog=7s").await.unwrap();
    let guard = client.mutex("orders").lock().await.unwrap();
    let left = guard.remaining();
    assert!(left.as_millis() > 6_000 && left.as_millis() < 7_000, "{left:?}");
}

#[test]
fn on_current_runtime_is_refused_outside_a_runtime() {
    let error = ConnectOptions::parse("memory:").unwrap().on_current_runtime().connect_lazy().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misused);
    assert!(error.to_string().contains("outside a Tokio runtime"), "{error}");
}

#[test]
fn an_async_client_can_be_made_outside_a_runtime() {
    let client = ConnectOptions::parse("memory:").unwrap().connect_lazy().unwrap();
    drop(client.mutex("orders"));
}

#[test]
fn blocking_clients_need_no_runtime() {
    let client = blocking::connect("memory:").unwrap();
    client.mutex("orders").lock().unwrap().release().unwrap();
    assert_eq!(blocking::connect("mongo://localhost").unwrap_err().kind(), ErrorKind::Misused);
    client.close().unwrap();
}

#[tokio::test]
async fn a_blocking_client_is_refused_in_async_code_and_made_in_spawn_blocking() {
    assert_eq!(blocking::connect("memory:").unwrap_err().kind(), ErrorKind::Misused);
    let options = ConnectOptions::parse("memory:").unwrap().on_current_runtime();
    let refused = tokio::task::spawn_blocking(|| options.connect_blocking()).await.unwrap();
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Misused);
    let client = tokio::task::spawn_blocking(|| blocking::connect("memory:")).await.unwrap();
    client.unwrap().to_async().close().await.unwrap();
}

#[test]
fn the_error_of_a_backend_that_is_not_compiled_in_names_the_feature_to_add() {
    for (feature, is_compiled_in, url) in [
        ("redis", cfg!(feature = "redis"), "redis://h"),
        ("redis", cfg!(feature = "redis"), "redis+quorum://a,b,c"),
        ("postgres", cfg!(feature = "postgres"), "postgres://app@h/shop"),
        ("mysql", cfg!(feature = "mysql"), "mysql://app@h/shop"),
        ("sqlite", cfg!(feature = "sqlite"), "sqlite:x.db"),
        ("zookeeper", cfg!(feature = "zookeeper"), "zookeeper://h"),
    ] {
        match ConnectOptions::parse(url) {
            Ok(_) => assert!(is_compiled_in, "{url}"),
            Err(error) => {
                assert!(!is_compiled_in && error.kind() == ErrorKind::Unsupported, "{url}: {error}");
                assert!(error.to_string().contains(&format!("bandog's feature {feature:?}")), "{error}");
            }
        }
    }
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn with_must_exist_a_missing_file_is_not_created() {
    let folder = std::env::temp_dir().join(format!("bandog-connecting-{}", std::process::id()));
    let options = ConnectOptions::parse(format!("sqlite:{}", folder.join("typo.db").display())).unwrap();
    let client = options.must_exist().connect_lazy().unwrap();
    let error = client.show("orders").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("typo.db"), "{error}");
    assert!(!folder.exists());
}

/// If the store cannot be reached, `connect` logs one line after about a second, with the address and the reason.
#[cfg(feature = "redis")]
#[tokio::test]
async fn a_store_that_does_not_answer_is_logged_while_connect_waits() {
    use bandog_testkit::{LogCapture, eventually_async};
    use std::time::{Duration, Instant};

    let (log, _guard) = LogCapture::of_thread("bandog");
    let options = ConnectOptions::parse("redis://somebody:secret@127.0.0.1:1").unwrap().on_current_runtime();
    let start = Instant::now();
    let connecting = tokio::spawn(options.connect());
    eventually_async(Duration::from_secs(10), async || log.lines_with("has not answered yet").len() == 1).await;
    assert!(start.elapsed() > Duration::from_millis(800), "the line is logged too early");
    assert!(!connecting.is_finished(), "connect must still wait for the store");
    let line = log.lines_with("has not answered yet").remove(0);
    assert!(line.starts_with("WARN") && line.contains("redis://127.0.0.1:1/0"), "{line}");
    assert!(line.contains("refused"), "{line}");
    let error = connecting.await.unwrap().unwrap_err();
    assert!(start.elapsed() > Duration::from_secs(4), "{:?}", start.elapsed());
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(log.lines_with("has not answered yet").len(), 1, "the line is logged once");
    assert!(!["somebody", "secret"].iter().any(|word| line.contains(word) || error.to_string().contains(word)));
}
