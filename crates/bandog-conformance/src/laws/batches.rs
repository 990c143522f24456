//! Several steps or renewals in one call, for locks of several kinds.

use bandog_core::{Backend, Kind, Leases, Renewal, Step};

use crate::{
    Law, World,
    kind_kit::{KINDS, attempt, each_kind, freed, granted, permits, row, word},
    kit::{NAME, nothing_left},
};

/// Law 3: the steps of one call are applied in their order, and each step has its own answer at the same position. A
/// step that is refused with an error does not affect the other steps. The same applies to renewals.
pub async fn independent_steps<W: World>(world: &W) -> Law {
    let store = world.backend();
    let kinds = store.profile().kinds;
    let supported: Vec<_> = KINDS.into_iter().filter(|kind| kinds.contains(*kind)).collect();
    let name = |kind: Kind| kind.name().to_owned();

    // Claims of all kinds in one call. The claims of one name follow each other, with other names between them.
    let holders: Vec<_> = supported.iter().map(|kind| attempt(*kind, &name(*kind))).collect();
    let rivals: Vec<_> = supported.iter().map(|kind| attempt(rival(*kind), &name(*kind))).collect();
    let claims: Vec<_> = holders.iter().chain(&rivals).cloned().collect();
    let answers = texts(&store, claims.iter().cloned().map(Step::Claim).collect()).await;
    // The row of a held name says which of its claims are holders.
    for (claim, answer) in claims.iter().zip(&answers) {
        let owner = claim.id.to_string();
        let holders = row(&store, claim).await?.holders;
        let is_holder = holders.iter().any(|holder| holder.owner.as_ref() == Some(&owner));
        assert_eq!(*answer, if is_holder { "granted" } else { "busy" }, "{claim:?}");
    }
    assert!(answers.iter().any(|answer| answer == "busy") && answers.iter().any(|answer| answer == "granted"));

    // Renewals of all kinds in one call, of which every second one is of a claim that does not exist.
    let held: Vec<_> = claims.iter().zip(&answers).filter(|(_, answer)| *answer == "granted").collect();
    let held: Vec<_> = held.into_iter().map(|(claim, _)| claim.clone()).collect();
    let renewed: Vec<_> =
        held.iter().flat_map(|claim| [claim.clone(), attempt(claim.kind, claim.key.as_str())]).collect();
    for (number, answer) in store.renew(&renewed).await.into_iter().enumerate() {
        assert_eq!(matches!(answer?, Renewal::Extended { .. }), number % 2 == 0, "{:?}", renewed[number]);
    }

    // The steps of one key in one call, with steps of other names between them.
    for kind in supported.iter().filter(|kind| **kind != Kind::Read) {
        let name = format!("{NAME} {}", kind.name());
        let kind = if matches!(kind, Kind::Permits { .. }) { permits(5, 5) } else { *kind };
        let (first, second, elsewhere) = (attempt(kind, &name), attempt(kind, &name), held[0].clone());
        let steps = [
            (Step::Claim(first.clone()), "granted"),
            (Step::Claim(second.clone()), "busy"),
            (Step::Claim(elsewhere.clone()), "granted"),
            (Step::Release(first.clone()), "freed"),
            (Step::Release(first.clone()), "not held"),
            (Step::Claim(second.clone()), "granted"),
            (Step::Claim(first.clone()), "busy"),
            (Step::Release(second.clone()), "freed"),
            (Step::Claim(first.clone()), "granted"),
        ];
        let expected: Vec<_> = steps.iter().map(|(_, answer)| (*answer).to_owned()).collect();
        let steps = steps.into_iter().map(|(step, _)| step).collect();
        assert_eq!(texts(&store, steps).await, expected, "{kind}");
        freed(&store, &first).await?;
    }

    // Refused steps between other steps.
    if let [first, .., last] = &held[..]
        && first.kind.family() != last.kind.family()
    {
        let wrong = attempt(last.kind, first.key.as_str());
        let new = attempt(Kind::Mutex, "new");
        let upgrade = Step::Pass { from: Box::new(first.clone()), to: wrong.clone() };
        let steps =
            vec![Step::Claim(first.clone()), Step::Claim(wrong), Step::Claim(new.clone()), upgrade, Step::Release(new)];
        assert_eq!(texts(&store, steps).await, ["granted", "Denied", "granted", "Misused", "freed"]);
        granted(&store, first).await?;
    }
    let releases = held.into_iter().map(Step::Release).collect();
    assert!(texts(&store, releases).await.iter().all(|answer| answer == "freed"));
    nothing_left(world, &[]).await;
    each_kind(world, async |_| Ok(())).await
}

/// The kind of a second claim for a name that a claim of this kind holds.
fn rival(kind: Kind) -> Kind {
    match kind {
        Kind::Permits { .. } => permits(3, 5),
        Kind::Mutex | Kind::Fair | Kind::Read | Kind::Write => kind,
    }
}

/// Applies the steps in one call, and returns the answers in words.
async fn texts(backend: &impl Backend, steps: Vec<Step>) -> Vec<String> {
    let answers = backend.apply(&steps).await;
    assert_eq!(answers.len(), steps.len());
    answers.iter().map(word).collect()
}
