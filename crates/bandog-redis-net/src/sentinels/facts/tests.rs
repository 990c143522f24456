use bandog_core::ErrorKind;

use super::*;

fn host(port: u16) -> Host {
    Host { name: "h".into(), port }
}

/// The sentinels 1, 2 and 3. The masters have the ports 91, 92 and so on.
fn three() -> Facts {
    Facts::new([1, 2, 3].map(host).into())
}

fn answer(master: u16, epoch: impl Into<Option<u64>>) -> Result<Answer> {
    Ok(Answer { master: host(master), epoch: epoch.into(), others: Vec::new(), id: None })
}

fn fault() -> Result<Answer> {
    Err(Error::unavailable("no answer"))
}

impl Facts {
    fn receives(&mut self, sentinel: u16, said: Result<Answer>) -> bool {
        self.record(&host(sentinel), said, Instant::now())
    }

    fn ports(&self) -> Vec<u16> {
        self.masters().iter().map(|choice| choice.master.port).collect()
    }

    fn first(&self) -> Choice {
        self.masters().remove(0)
    }
}

#[test]
fn the_greatest_epoch_names_the_master_whoever_answers_first() {
    for order in [[1, 2, 3], [3, 1, 2], [2, 3, 1]] {
        let mut facts = three();
        for sentinel in order {
            // One sentinel knows of the failover to 92.
            facts.receives(sentinel, if sentinel == 3 { answer(92, 5) } else { answer(91, 4) });
        }
        assert_eq!(facts.ports(), [92], "{order:?}");
        assert_eq!(facts.faults().len(), 2, "the others are behind");
    }
}

#[test]
fn most_votes_decide_between_equal_and_hidden_epochs() {
    for epoch in [None, Some(4)] {
        let mut facts = three();
        facts.receives(1, answer(91, epoch));
        facts.receives(2, answer(92, epoch));
        facts.receives(3, answer(92, epoch));
        assert_eq!(facts.ports(), [92, 91], "{epoch:?}");
    }
    // One sentinel hides its epoch. The others agree.
    let mut facts = three();
    facts.receives(1, answer(91, None));
    facts.receives(2, answer(92, 4));
    facts.receives(3, answer(92, 4));
    assert_eq!(facts.ports(), [92, 91]);
}

#[test]
fn a_connection_is_left_for_a_greater_epoch_or_for_most_votes() {
    let mut facts = three();
    facts.receives(1, answer(91, 4));
    facts.receives(2, answer(91, 4));
    let old = facts.first();
    facts.receives(3, answer(91, 3));
    assert!(!facts.have_left(&old), "the third one is behind");
    facts.receives(3, answer(92, 5));
    assert!(facts.have_left(&old), "one sentinel knows of a failover");
    let new = facts.first();
    facts.receives(3, fault());
    assert!(!facts.have_left(&new), "the sentinels that still answer are behind");

    let mut facts = three();
    facts.receives(1, answer(91, None));
    let old = facts.first();
    facts.receives(2, answer(92, None));
    assert!(!facts.have_left(&old), "one vote each");
    facts.receives(1, fault());
    assert!(!facts.have_left(&old), "one vote of three");
    facts.receives(3, answer(92, None));
    assert!(facts.have_left(&old), "two votes of three");
    for sentinel in 1..=3 {
        facts.receives(sentinel, fault());
    }
    assert!(!facts.have_left(&old), "nobody names another master");
}

/// Sentinels in containers name addresses that a client outside cannot reach.
#[test]
fn sentinels_that_never_answer_have_no_vote() {
    let mut facts = Facts::new(vec![host(1)]);
    facts.record(
        &host(1),
        answer(91, None).map(|answer| Answer { others: vec![host(2), host(3)], ..answer }),
        Instant::now(),
    );
    let old = facts.first();
    facts.receives(2, fault());
    facts.receives(3, fault());
    facts.receives(1, answer(92, None));
    assert!(facts.have_left(&old));
}

#[test]
fn further_sentinels_are_remembered_up_to_a_limit() {
    let mut facts = Facts::new(vec![host(1), host(1)]);
    let others: Vec<Host> = (1..100).map(host).collect();
    facts.record(&host(1), answer(91, None).map(|answer| Answer { others, ..answer }), Instant::now());
    assert_eq!(facts.hosts().len(), 1 + MAX_OTHERS);
    assert!(!facts.is_complete());
}

/// The URL names the sentinel 1 by its name, and the others name it by its address, 11.
#[test]
fn a_sentinel_with_two_addresses_has_one_vote() {
    for order in [[1, 2, 11], [11, 2, 1], [2, 1, 11]] {
        let mut facts = Facts::new(vec![host(1), host(2)]);
        let mut receives = |sentinel: u16, master: u16| {
            let (id, others) = match sentinel {
                1 | 11 => ("first", [2, 3].map(host)),
                _ => ("second", [11, 3].map(host)),
            };
            let answer =
                answer(master, None).map(|answer| Answer { id: Some(id.into()), others: others.into(), ..answer });
            facts.receives(sentinel, answer);
            (facts.masters(), facts.hosts().map(|host| host.port).collect::<Vec<_>>())
        };
        receives(2, 92);
        for sentinel in order {
            receives(sentinel, if sentinel == 2 { 92 } else { 91 });
        }
        let (masters, hosts) = receives(2, 92);
        assert_eq!(hosts, [1, 2, 3], "{order:?}");
        assert!(masters.len() == 2 && masters.iter().all(|choice| choice.votes == 1), "{order:?}: {masters:?}");
        // The name of the URL does not lead to the sentinel any more.
        facts.receives(1, fault());
        let others = vec![host(11), host(3)];
        assert!(facts.receives(2, answer(92, None).map(|answer| Answer { others, ..answer })));
        assert!(facts.hosts().any(|known| *known == host(11)), "{order:?}");
    }
}

#[test]
fn a_silent_sentinel_that_no_other_names_is_dropped() {
    let start = Instant::now();
    let after = |seconds| start + Duration::from_secs(seconds);
    let names = |others: &[u16]| {
        let others = others.iter().copied().map(host).collect();
        answer(91, None).map(|answer| Answer { others, ..answer })
    };
    let ports = |facts: &Facts| facts.hosts().map(|host| host.port).collect::<Vec<_>>();
    let mut facts = Facts::new(vec![host(1), host(9)]);
    facts.record(&host(1), names(&[2, 3, 4]), start);
    facts.record(&host(2), names(&[3]), after(1));
    facts.record(&host(9), fault(), after(1));
    // 3 is named, 2 answers, and 9 is in the URL. No sentinel names 4.
    for seconds in [2, 60] {
        facts.record(&host(1), names(&[3]), after(seconds));
        assert_eq!(ports(&facts), [1, 9, 2, 3, 4], "after {seconds} s");
    }
    assert!(facts.record(&host(1), names(&[3]), after(61)), "the list has changed");
    assert_eq!(ports(&facts), [1, 9, 2, 3]);
    // While no sentinel answers, none is dropped.
    for sentinel in [1, 2, 3] {
        facts.record(&host(sentinel), fault(), after(70));
    }
    facts.record(&host(2), fault(), after(1000));
    assert_eq!(ports(&facts), [1, 9, 2, 3]);
    facts.record(&host(9), names(&[2, 3]), after(1001));
    assert_eq!(ports(&facts), [1, 9, 2, 3]);
}

#[test]
fn a_choice_waits_for_each_sentinel_or_for_most() {
    let mut facts = three();
    facts.receives(1, answer(91, 1));
    assert!(!facts.is_sufficient() && !facts.is_complete());
    facts.receives(2, fault());
    assert!(!facts.is_sufficient() && !facts.is_complete());
    facts.receives(3, fault());
    assert!(!facts.is_sufficient() && facts.is_complete());
    facts.receives(2, answer(91, 1));
    assert!(facts.is_sufficient());
    assert!(!Facts::new(Vec::new()).is_sufficient());
    facts.forget();
    assert!(!facts.is_sufficient() && !facts.is_complete());
}

#[test]
fn only_news_are_reported() {
    let mut facts = three();
    assert!(facts.receives(1, answer(91, 1)));
    assert!(!facts.receives(1, answer(91, 1)));
    assert!(facts.receives(1, answer(91, 2)));
    assert!(facts.receives(1, fault()));
    assert!(!facts.receives(1, fault()));
    assert!(!facts.forget_permanent_faults());
    assert!(facts.receives(2, Err(Error::new(ErrorKind::Denied, "no"))));
    assert!(facts.forget_permanent_faults());
    assert_eq!(facts.faults().len(), 1);
    assert!(!facts.receives(9, answer(91, 1)), "an unknown sentinel");
}

#[test]
fn lower_epochs_are_believed_if_nothing_else_answers_for_some_seconds() {
    let start = Instant::now();
    let after = |seconds| start + Duration::from_secs(seconds);
    let mut facts = three();
    facts.record(&host(1), answer(91, 7), start);
    let old = facts.first();
    facts.record(&host(1), fault(), after(1));
    assert!(facts.record(&host(2), answer(92, 0), after(2)));
    assert!(facts.masters().is_empty());
    assert!(!facts.record(&host(2), answer(92, 0), after(6)));
    assert!(facts.masters().is_empty());
    // A time without any answer does not count.
    facts.record(&host(2), fault(), after(7));
    facts.record(&host(2), answer(92, 0), after(100));
    assert!(facts.masters().is_empty());
    // A sentinel that is not behind starts the time again.
    facts.record(&host(3), answer(91, 7), after(103));
    facts.record(&host(3), fault(), after(104));
    assert!(!facts.record(&host(2), answer(92, 0), after(108)));
    assert!(facts.record(&host(2), answer(92, 0), after(109)));
    assert_eq!(facts.ports(), [92]);
    assert!(!facts.have_left(&old), "one sentinel of three");
    facts.record(&host(3), answer(92, 0), after(110));
    assert!(facts.have_left(&old), "the sentinels were set up again");
}
