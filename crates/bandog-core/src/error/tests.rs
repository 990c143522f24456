use std::io;

use super::*;

/// An error whose text does not contain its cause.
#[derive(Debug)]
struct Silent(Error);

impl fmt::Display for Silent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the wrapper")
    }
}

impl StdError for Silent {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.0)
    }
}

/// The text of a report that prints an error with its sources.
fn report(error: &Error) -> String {
    let chain = std::iter::successors(Some(error as &(dyn StdError + 'static)), |&error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[test]
fn a_report_prints_each_cause_once() {
    let io = || io::Error::new(io::ErrorKind::BrokenPipe, "broken pipe");
    let inner = || Error::unavailable("no answer").during("swap").caused_by(io());
    assert_eq!(report(&inner()), "swap: no answer (Unavailable): broken pipe");
    let same_kind = Error::unavailable("the master is away").caused_by(inner());
    assert_eq!(report(&same_kind), "the master is away (Unavailable): swap: no answer: broken pipe");
    let other_kind = Error::misused("the call failed").caused_by(inner());
    assert_eq!(report(&other_kind), "the call failed: swap: no answer (Unavailable): broken pipe");
    let behind = Error::misused("the call failed").caused_by(Silent(inner()));
    assert_eq!(report(&behind), "the call failed: the wrapper: swap: no answer (Unavailable): broken pipe");
    assert!(inner().cause().is_some_and(|cause| cause.is::<io::Error>()));
}
