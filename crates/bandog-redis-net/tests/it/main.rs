//! Tests of the connections with real servers. The tests of `bandog-redis` add those with the data of locks.

#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod calls;
mod messages;

use std::time::Duration;

use bandog_redis_net::{FurtherOptions, Options, Script, Scripts, Servers};

/// Time in which a server has answered, on a machine under load.
const SOON: Duration = Duration::from_secs(30);

/// The servers of this URL.
fn servers(url: &str, scripts: &[&'static Script]) -> Servers {
    let (options, _) = Options::from_url(url, &FurtherOptions { names: &[], shown: "" }).unwrap();
    Servers::new(options.with_timeout(SOON), scripts.iter().copied().collect::<Scripts>()).unwrap()
}
