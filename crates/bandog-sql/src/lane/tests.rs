use async_trait::async_trait;
use bandog_core::{ClaimId, ClientId, Key, Kind};

use super::*;
use crate::{fault::Fault, session::Link};

struct Nothing;

#[async_trait]
impl Query for Nothing {
    type Output = ();

    async fn run(&self, _: &Link, _: &Context) -> Result<(), Fault> {
        Ok(())
    }
}

fn claim() -> Claim {
    Claim {
        key: Key::new("k").unwrap(),
        id: ClaimId { client: ClientId::random(), number: 1 },
        kind: Kind::Mutex,
        ttl: Duration::from_secs(1),
        fences: std::num::NonZeroU32::MIN,
        above: None,
        joins: false,
        offers: false,
    }
}

/// A lane that is busy for long must not say that a request was perhaps executed.
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
        Work::Other(Box::new(Pending { query: Nothing, answer: None, reply })),
    ];
    let batch = works.into_iter().map(|work| Job { deadline, work }).collect();
    assert!(join_calls(batch, &error).is_empty());
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
    let joined = join_calls(calls.into_iter().map(job).collect(), &late("here"));
    let sizes: Vec<_> = joined
        .iter()
        .map(|joined| match joined {
            Joined::Swap(calls, _) => calls.len(),
            Joined::Apply(..) | Joined::Renew(..) | Joined::Other(..) => panic!("another kind"),
        })
        .collect();
    assert_eq!(sizes, [64, 2, 1]);
}
