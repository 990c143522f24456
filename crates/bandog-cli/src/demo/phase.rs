//! One phase of the demo: a new shop, and new replicas that sweep until all orders are closed.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use tokio::time::sleep;

use super::{
    books::Counts,
    fault::DemoFault,
    plan::Plan,
    replica::{Brief, Schedule},
    replica_processes::ReplicaProcesses,
    shop::Shop,
    store::DemoStore,
    view::{Scene, View},
};
use crate::exit_code::ExitCode;

/// Interval between two updates of the view.
const FRAME: Duration = Duration::from_millis(80);

/// One phase, with the scheduler or without.
pub(super) struct Phase<'a> {
    plan: &'a Plan,
    /// The demo's directory.
    place: &'a Path,
    /// The time at which the phase ends, even if orders are still open.
    until: Instant,
    /// The scheduler's store. None for the phase without a scheduler.
    store: Option<&'a DemoStore>,
}

/// The result of a phase.
#[derive(Debug)]
pub(super) struct Outcome {
    /// Whether the phase had a scheduler, which gives each tick to one replica.
    pub(super) lock: bool,
    pub(super) counts: Counts,
    /// Whether orders stayed open because the scheduler's store does not answer.
    pub(super) store_is_away: bool,
    /// The last error of a replica.
    pub(super) trouble: Option<String>,
    /// Duration of the phase, without the start of the replicas.
    pub(super) took: Duration,
}

impl<'a> Phase<'a> {
    pub(super) fn without_lock(plan: &'a Plan, place: &'a Path, until: Instant) -> Self {
        Self { plan, place, until, store: None }
    }

    pub(super) fn with_lock(plan: &'a Plan, place: &'a Path, until: Instant, store: &'a DemoStore) -> Self {
        Self { plan, place, until, store: Some(store) }
    }

    /// Starts the replicas, runs the phase to its end, and counts the result.
    pub(super) async fn play(&self, view: &mut View) -> Result<Outcome, DemoFault> {
        let path = self.place.join(if self.store.is_some() { "with-lock.db" } else { "without-lock.db" });
        let shop = Shop::create(&path)?;
        view.begin(self.store.map(DemoStore::description), self.plan);
        let mut processes = ReplicaProcesses::start((1..=self.plan.replicas).map(|number| self.brief(number, &path)))?;
        self.until_ready(&shop, &mut processes).await?;
        let started = Instant::now();
        shop.take_orders(self.plan)?;
        self.until_closed(&shop, &mut processes, view).await?;
        processes.stop().await;
        let took = started.elapsed();
        view.end(&self.scene(&shop)?);
        let counts = shop.count()?;
        let store_is_away = match self.store {
            Some(store) if counts.closed < counts.orders => store.is_away().await,
            Some(_) | None => false,
        };
        let (lock, trouble) = (self.store.is_some(), shop.last_trouble()?);
        Ok(Outcome { lock, counts, store_is_away, trouble, took })
    }

    /// The configuration of one replica. `shop` is the file of the shop's database.
    fn brief(&self, number: u16, shop: &Path) -> Brief {
        Brief {
            number,
            place: self.place.to_owned(),
            shop: PathBuf::from(shop),
            schedule: self.store.map(|store| Schedule { url: store.url.clone(), job: store.job.clone() }),
            payment: self.plan.payment(),
        }
    }

    /// Waits until all replicas are ready. A replica that starts late would miss the first sweeps. So it would also
    /// miss the race that the demo shows.
    async fn until_ready(&self, shop: &Shop, processes: &mut ReplicaProcesses) -> Result<(), DemoFault> {
        while shop.ready()? < self.plan.replicas {
            let running = processes.running();
            if running < self.plan.replicas.into() || Instant::now() > self.until {
                let (ready, all) = (shop.ready()?, self.plan.replicas);
                let trouble = shop.last_trouble()?.unwrap_or_default();
                let message = format!("{ready} of {all} replicas became ready, and {running} are running{trouble}");
                return Err(DemoFault::Unexpected(ExitCode::Internal, message));
            }
            sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    /// Waits until all orders are closed. Also returns if the time is over, or if no replica runs any more. In these
    /// cases, the report names the problem.
    async fn until_closed(
        &self,
        shop: &Shop,
        processes: &mut ReplicaProcesses,
        view: &mut View,
    ) -> Result<(), DemoFault> {
        loop {
            let scene = self.scene(shop)?;
            view.draw(&scene);
            // With the scheduler, other replicas finish the work of a killed replica. So the phase also waits until all
            // stock is returned and all customers are notified. Without the scheduler, no replica finishes this work.
            // So the phase waits for the closed orders only.
            let done = if scene.lock { scene.counts.restored.min(scene.counts.notified) } else { scene.counts.closed };
            if done == self.plan.orders || processes.running() == 0 || Instant::now() > self.until {
                return Ok(());
            }
            sleep(FRAME).await;
        }
    }

    /// The present state of the phase, for the view.
    fn scene(&self, shop: &Shop) -> Result<Scene, DemoFault> {
        let (counts, sweeping, latest) = (shop.count()?, shop.sweeping()?, shop.latest()?);
        Ok(Scene { lock: self.store.is_some(), replicas: self.plan.replicas, counts, sweeping, latest })
    }
}
