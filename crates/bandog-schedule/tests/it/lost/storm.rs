//! Random faults together.

use bandog_schedule::{OnCrash, Overlap};
use fastrand::Rng;

use super::*;

/// A fault of a cluster.
#[derive(Debug, Clone, Copy)]
enum Harm {
    Wipe,
    /// One node is disconnected or reconnected.
    Cut(usize),
    Mend(usize),
    Pause,
    Resume,
    Run,
}

fn harm(rng: &mut Rng) -> Harm {
    match rng.u8(..10) {
        0..3 => Harm::Wipe,
        3..5 => Harm::Cut(rng.usize(..3)),
        5..7 => Harm::Mend(rng.usize(..3)),
        7 => Harm::Pause,
        8 => Harm::Resume,
        _ => Harm::Run,
    }
}

async fn do_harm(cluster: &Cluster, harm: Harm) {
    // A job that is lost at this moment is unknown.
    let _ = match harm {
        Harm::Wipe => {
            cluster.store.wipe();
            Ok(())
        }
        Harm::Cut(node) => {
            cluster.cut(node);
            Ok(())
        }
        Harm::Mend(node) => {
            cluster.mend(node);
            Ok(())
        }
        Harm::Pause => cluster.jobs().pause("job", "harm").await,
        Harm::Resume => cluster.jobs().resume("job").await.map(drop),
        Harm::Run => cluster.jobs().run("job").await.map(drop),
    };
}

/// While each node lives, no tick runs twice, however often the store loses its data. At the end everything works.
#[tokio::test(start_paused = true)]
async fn a_store_that_is_emptied_again_and_again() {
    for seed in 0..60 {
        let mut rng = Rng::with_seed(seed);
        let overlap = [Overlap::Skip, Overlap::Queue(5.try_into().unwrap()), Overlap::Allow(3.try_into().unwrap())];
        let overlap = overlap[rng.usize(..3)];
        let takes = Duration::from_millis(rng.u64(..2500));
        let mut cluster = Cluster::new();
        for node in 0..3 {
            time::sleep(Duration::from_millis(rng.u64(..500))).await;
            let job = Job::fixed_rate("job", secs(1)).overlap(overlap).on_crash(OnCrash::Abandon).lease(secs(5));
            cluster.join([(job, takes)]).await;
            cluster.nodes[node].wire.at_random(seed * 10 + u64::from(rng.u8(..)), 0.03, Duration::from_millis(400));
        }
        let mut harms = Vec::new();
        for _ in 0..20 {
            time::sleep(Duration::from_millis(rng.u64(..4000))).await;
            let harm = harm(&mut rng);
            harms.push(harm);
            do_harm(&cluster, harm).await;
        }
        (0..3).for_each(|node| cluster.mend(node));
        time::sleep(secs(20)).await;
        // The store may have lost its data just before the pause.
        let _ = cluster.jobs().resume("job").await;
        time::sleep(secs(20)).await;
        let runs = cluster.ran("job");
        no_claim_twice(&runs);
        each_once(&runs.iter().filter(|run| !run.is_by_hand).map(|run| run.tick).collect::<Vec<_>>());
        let row = cluster.row("job").await;
        let last = runs.last().unwrap().at;
        let now = Time::from(cluster.clock.wall()).millisecond() / 1000 - cluster.start;
        assert!(now - last <= 6, "{seed} {harms:?}: {last} {row:?}");
    }
}
