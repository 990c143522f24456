//! Random faults and commands, one after the other: the store loses its data, nodes are disconnected, jobs are paused.

use bandog_schedule::{OnCrash, Overlap};
use fastrand::Rng;

use super::*;

/// A fault, or a command of an operator.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Wipe,
    /// One node is disconnected or reconnected.
    Cut(usize),
    Mend(usize),
    Pause,
    Resume,
    Run,
}

fn random_fault(rng: &mut Rng) -> Fault {
    match rng.u8(..10) {
        0..3 => Fault::Wipe,
        3..5 => Fault::Cut(rng.usize(..3)),
        5..7 => Fault::Mend(rng.usize(..3)),
        7 => Fault::Pause,
        8 => Fault::Resume,
        _ => Fault::Run,
    }
}

async fn cause(cluster: &Cluster, fault: Fault) {
    // A command fails if the store has just lost the job.
    let _ = match fault {
        Fault::Wipe => {
            cluster.store.wipe();
            Ok(())
        }
        Fault::Cut(node) => {
            cluster.cut(node);
            Ok(())
        }
        Fault::Mend(node) => {
            cluster.mend(node);
            Ok(())
        }
        Fault::Pause => cluster.jobs().pause("job", "fault").await,
        Fault::Resume => cluster.jobs().resume("job").await.map(drop),
        Fault::Run => cluster.jobs().run("job").await.map(drop),
    };
}

/// All nodes stay alive. At the end of the faults, the job runs again.
#[tokio::test(start_paused = true)]
async fn no_tick_runs_twice_however_often_the_store_loses_its_data() {
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
        let mut faults = Vec::new();
        for _ in 0..20 {
            time::sleep(Duration::from_millis(rng.u64(..4000))).await;
            let fault = random_fault(&mut rng);
            faults.push(fault);
            cause(&cluster, fault).await;
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
        assert!(now - last <= 6, "{seed} {faults:?}: {last} {row:?}");
    }
}
