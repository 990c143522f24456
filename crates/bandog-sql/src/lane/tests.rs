use async_trait::async_trait;
use bandog_core::{Claim, ClaimId, ClientId, ErrorKind, Key, Kind, Step, Swap};

use super::*;
use crate::{
    fault::Fault,
    job::{Pending, Query},
    session::Link,
};

struct Nothing;

#[async_trait]
impl Query for Nothing {
    type Output = ();

    async fn run(&self, _: &Link, _: &Context) -> Result<(), Fault> {
        Ok(())
    }
}

fn claim() -> Claim {
    Claim::new(
        Key::new("k").unwrap(),
        ClaimId { client: ClientId::random(), number: 1 },
        Kind::Mutex,
        Duration::from_secs(1),
    )
}

/// A lane that is busy for long must not report that a request may have been executed.
#[test]
fn a_request_whose_deadline_has_passed_is_answered_and_was_not_applied() {
    let (deadline, error) = (Instant::now(), late("here"));
    let is_late = |error: Error| {
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(!error.maybe_applied() && error.to_string().contains("did not answer in time"), "{error}");
    };
    let (steps, mut applied) = oneshot::channel();
    let (renewals, mut renewed) = oneshot::channel();
    let (swaps, mut swapped) = oneshot::channel();
    let (reply, mut queried) = oneshot::channel();
    let works = [
        Work::Apply(vec![Step::Claim(claim()), Step::Release(claim())], steps),
        Work::Renew(vec![claim()], renewals),
        Work::Swap(Vec::new(), swaps),
        Work::Other(Box::new(Pending { query: Arc::new(Nothing), answer: None, reply })),
    ];
    let mut waiting = works.into_iter().map(|work| Job { deadline, work }).collect();
    assert!(join_calls(None, &mut waiting, || error.clone()).is_none());
    let applied: Vec<_> = applied.try_recv().unwrap();
    assert_eq!(applied.len(), 2);
    applied.into_iter().for_each(|answer| is_late(answer.unwrap_err()));
    let renewed: Vec<_> = renewed.try_recv().unwrap();
    assert_eq!(renewed.len(), 1);
    renewed.into_iter().for_each(|answer| is_late(answer.unwrap_err()));
    is_late(swapped.try_recv().unwrap().unwrap_err());
    is_late(queried.try_recv().unwrap().unwrap_err());
}

#[test]
fn swaps_of_several_calls_are_done_together_up_to_a_limit() {
    let swap = |text: &str| Swap::new(Key::new("k").unwrap(), None, text);
    let large = "x".repeat(200_000);
    let calls = [vec![swap("a")], vec![swap("b"); 63], vec![swap("c")], vec![swap(&large)], vec![swap(&large)]];
    let deadline = Instant::now() + Duration::from_secs(60);
    let job = |swaps| Job { deadline, work: Work::Swap(swaps, oneshot::channel().0) };
    let mut waiting = calls.into_iter().map(job).collect();
    let joined = std::iter::from_fn(|| join_calls(None, &mut waiting, || late("here")));
    let sizes: Vec<_> = joined
        .map(|joined| match joined.calls {
            Calls::Swap(calls) => calls.len(),
            Calls::Apply(_) | Calls::Renew(_) | Calls::Other(_) => panic!("another kind"),
        })
        .collect();
    assert_eq!(sizes, [64, 2, 1]);
}

/// Otherwise a query would read locks before the steps that were sent before it.
#[test]
fn calls_of_another_kind_are_not_overtaken() {
    let deadline = Instant::now() + Duration::from_secs(60);
    let job = |work| Job { deadline, work };
    let apply = || job(Work::Apply(vec![Step::Claim(claim())], oneshot::channel().0));
    let query =
        || Work::Other(Box::new(Pending { query: Arc::new(Nothing), answer: None, reply: oneshot::channel().0 }));
    let join = |left, waiting: &mut VecDeque<Job>| {
        let joined = join_calls(left, waiting, || late("here")).map(|joined| joined.calls);
        let steps = match &joined {
            Some(Calls::Apply(steps)) => Some(steps.len()),
            Some(Calls::Renew(_) | Calls::Swap(_) | Calls::Other(_)) | None => None,
        };
        (steps, waiting.len())
    };
    let mut waiting = VecDeque::from([apply(), job(query()), apply(), apply()]);
    // The rest of the earlier calls gets one more.
    assert_eq!(join(Some(Joined::of(apply())), &mut waiting), (Some(2), 3));
    // The rest of these calls is executed before the query.
    assert_eq!(join(Some(Joined::of(apply())), &mut waiting), (Some(1), 3));
    assert_eq!(join(None, &mut waiting), (None, 2), "the query");
    assert_eq!(join(None, &mut waiting), (Some(2), 0));
    // A batch has a limit.
    let large = || job(Work::Apply(vec![Step::Claim(claim()); MAX_STEPS - 1], oneshot::channel().0));
    let mut waiting = VecDeque::from([apply(), apply()]);
    assert_eq!(join(Some(Joined::of(large())), &mut waiting), (Some(MAX_STEPS), 1));
}
