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

#[test]
fn records_of_jobs_and_sessions_of_nodes_are_named_in_words() {
    for (verb, key, words) in [
        ("swap", "job/x", "the record of the job \"x\""),
        ("read", "shop:job/a/job/b", "the record of the job \"a/job/b\""),
        ("history", "job/\u{e4} b", "the record of the job \"\u{e4} b\""),
        ("complete", "shop:job/x", "a run of the job \"x\""),
        ("renew", "schedule/node/1", "the session of this node"),
        ("release", "shop:schedule/node/12", "the session of this node"),
        ("read", "schedule/node/2", "the session of a node"),
        ("swap", "schedule/nodes", "the record of the nodes"),
        ("swap", "schedule/jobs/a1", "the record of the nodes"),
        ("read", "schedule/paused", "the record of pauses"),
        ("swap", "shop:schedule/board", "the record of changed jobs"),
        ("subscribe", "schedule/news", "the record of changed jobs"),
        ("swap", "schedule/done/x/1/2", "the record of a completed run"),
        // Names of users.
        ("lock", "job/x", "\"job/x\""),
        ("lock", "schedule/node/x", "\"schedule/node/x\""),
        ("renew", "schedule/node/", "\"schedule/node/\""),
        ("lock", "my-schedule/node/1", "\"my-schedule/node/1\""),
        ("read", "election/job/x", "\"election/job/x\""),
        ("swap", "schedule/other", "\"schedule/other\""),
        ("show", "schedule/node/1", "\"schedule/node/1\""),
    ] {
        let error = Error::unavailable("no answer").during(verb).at(&Key::new(key).unwrap());
        assert_eq!(error.to_string(), format!("{verb} {words}: no answer (Unavailable)"));
        assert_eq!(error.key().unwrap().as_str(), key);
    }
}
