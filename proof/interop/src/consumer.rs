//! A process that takes elements of a queue until it is killed. Arguments: the server's URL, the name of the queue, and
//! `take` or `pop`.
//!
//! Before it works on an element, it prints `took ELEMENT`. When the store has confirmed that the element is done, it
//! prints `done ELEMENT`.

use std::{env, error::Error, process::ExitCode, time::Duration};

use bandog::grid::{ClientGrid, Queue};

/// The lease of the elements, and the maximum time of one wait.
const LEASE: Duration = Duration::from_secs(3);

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let [url, name, mode] = args.as_slice() else {
        eprintln!("usage: bandog-interop-consumer URL NAME take|pop");
        return ExitCode::from(64);
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let consumed = runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(consume(url, name, mode)));
    let Err(error) = consumed;
    eprintln!("bandog-interop-consumer: {error}");
    ExitCode::FAILURE
}

/// Takes elements without an end.
async fn consume(url: &str, name: &str, mode: &str) -> Result<std::convert::Infallible, Box<dyn Error>> {
    let queue: Queue<String> = bandog::connect(url).await?.grid().queue(name)?.lease(LEASE);
    println!("ready");
    loop {
        if mode == "pop" {
            let Some(element) = queue.pop_wait(LEASE).await? else { continue };
            println!("took {element}");
            continue;
        }
        let Some(element) = queue.take(LEASE).await? else { continue };
        let name = element.clone();
        println!("took {name}");
        tokio::time::sleep(Duration::from_millis(1)).await;
        element.done().await?;
        println!("done {name}");
    }
}
