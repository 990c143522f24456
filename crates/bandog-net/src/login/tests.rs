use std::{
    future::pending,
    io,
    sync::atomic::{AtomicU32, Ordering},
};

use bandog_core::ErrorKind;

use super::*;

const LIMIT: Duration = Duration::from_secs(2);

fn login<F, G, E>(give: F) -> Login
where
    F: Fn() -> G + Send + Sync + 'static,
    G: Future<Output = Result<Credentials, E>> + Send + 'static,
    E: Into<Box<dyn StdError + Send + Sync>>,
{
    Login::of_url(Some("till".to_owned()), Some("old".to_owned())).given_by(CredentialsSource::new(give))
}

#[tokio::test]
async fn the_function_of_the_program_is_called_for_each_connection() {
    let calls = AtomicU32::new(0);
    let login = login(move || {
        let call = calls.fetch_add(1, Ordering::Relaxed);
        async move { Ok::<_, Error>(Credentials::password(format!("p{call}"))) }
    });
    for password in ["p0", "p1"] {
        assert_eq!(login.credentials(LIMIT).await.unwrap(), Credentials::new("till", password));
    }
    let other = self::login(async || Ok::<_, Error>(Credentials::new("v-till-7", "x")));
    assert_eq!(other.credentials(LIMIT).await.unwrap(), Credentials::new("v-till-7", "x"));
}

#[tokio::test(start_paused = true)]
async fn a_function_that_fails_panics_or_hangs_is_an_error_that_can_be_repeated() {
    let failing = login(async || Err(io::Error::other("no token")));
    let panicking = login(async || -> Result<Credentials, Error> { panic!("a bug of the program") });
    let calls = AtomicU32::new(0);
    let panicking_early = login(move || {
        assert!(calls.fetch_add(1, Ordering::Relaxed) > 0, "a bug of the program");
        async { Ok::<_, Error>(Credentials::default()) }
    });
    let hanging = login(async || pending::<Result<Credentials, Error>>().await);
    for (login, says) in
        [(failing, "no token"), (panicking, "panicked"), (panicking_early, "panicked"), (hanging, "within 1.8s")]
    {
        let error = timeout(LIMIT, login.credentials(LIMIT)).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        let text = format!("{error:#}");
        assert!(text.contains("the program's function for credentials") && text.contains(says), "{text}");
    }
}

#[test]
fn no_password_is_shown() {
    let shown = format!(
        "{:?} {:?} {:?}",
        Credentials::new("till", "hunter2"),
        Login::of_url(None, Some("hunter2".to_owned())),
        login(async || Ok::<_, Error>(Credentials::password("hunter2")))
    );
    assert!(shown.contains("till") && !shown.contains("hunter2"), "{shown}");
}
