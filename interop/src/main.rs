//! Holds a lock until this process is killed, to test a crash of the holder. Arguments: a URL and the lock's name.

use std::{future::pending, process::ExitCode};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (Some(url), Some(name)) = (args.next(), args.next()) else {
        eprintln!("usage: bandog-interop URL NAME");
        return ExitCode::from(64);
    };
    match hold(&url, &name).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bandog-interop: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn hold(url: &str, name: &str) -> bandog::Result<()> {
    let client = bandog::connect(url).await?;
    let _guard = client.mutex(name).lock().await?;
    println!("held");
    pending().await
}
