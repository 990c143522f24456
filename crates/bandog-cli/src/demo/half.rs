//! One half of the demo: a new shop, new replicas, until all orders are closed.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use tokio::time::sleep;

use super::{
    books::Counts,
    fault::Fault,
    plan::Plan,
    replica::{Brief, Schedule},
    shop::Shop,
    staff::Staff,
    store::Store,
    view::{Scene, View},
};
use crate::exit_code::ExitCode;

/// How often the view may change.
const FRAME: Duration = Duration::from_millis(80);

/// One half, with the scheduler or without.
pub(super) struct Half<'a> {
    plan: &'a Plan,
    place: &'a Path,
    until: Instant,
    store: Option<&'a Store>,
}

/// How a half came out.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) lock: bool,
    pub(super) counts: Counts,
    /// Whether orders are left open because the scheduler's store does not answer.
    pub(super) store_is_away: bool,
    /// What went wrong for a replica last, if anything did.
    pub(super) trouble: Option<String>,
    pub(super) took: Duration,
}

impl<'a> Half<'a> {
    pub(super) fn without_lock(plan: &'a Plan, place: &'a Path, until: Instant) -> Self {
        Self { plan, place, until, store: None }
    }

    pub(super) fn with_lock(plan: &'a Plan, place: &'a Path, until: Instant, store: &'a Store) -> Self {
        Self { plan, place, until, store: Some(store) }
    }

    pub(super) async fn play(&self, view: &mut View) -> Result<Outcome, Fault> {
        let path = self.place.join(if self.store.is_some() { "with-lock.db" } else { "without-lock.db" });
        let shop = Shop::create(&path)?;
        view.begin(self.store.map(Store::words), self.plan);
        let mut staff = Staff::hire((1..=self.plan.replicas).map(|number| self.brief(number, &path)))?;
        self.until_ready(&shop, &mut staff).await?;
        let started = Instant::now();
        shop.take_orders(self.plan)?;
        self.until_closed(&shop, &mut staff, view).await?;
        staff.dismiss().await;
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

    fn brief(&self, number: u16, shop: &Path) -> Brief {
        Brief {
            number,
            place: self.place.to_owned(),
            shop: PathBuf::from(shop),
            schedule: self.store.map(|store| Schedule { url: store.url.clone(), job: store.job.clone() }),
            payment: self.plan.payment(),
        }
    }

    /// Replicas that are late would miss the first sweeps, and so the race.
    async fn until_ready(&self, shop: &Shop, staff: &mut Staff) -> Result<(), Fault> {
        while shop.ready()? < self.plan.replicas {
            let running = staff.running();
            if running < self.plan.replicas.into() || Instant::now() > self.until {
                let (ready, all) = (shop.ready()?, self.plan.replicas);
                let trouble = shop.last_trouble()?.unwrap_or_default();
                let message = format!("of {all} replicas {ready} became ready and {running} run{trouble}");
                return Err(Fault::Story(ExitCode::Internal, message));
            }
            sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    /// Ends too when there is no time left, or nobody to close the rest: the report tells.
    async fn until_closed(&self, shop: &Shop, staff: &mut Staff, view: &mut View) -> Result<(), Fault> {
        loop {
            let scene = self.scene(shop)?;
            view.draw(&scene);
            // On their own timers nobody would finish what a replica has left that was killed.
            let done = if scene.lock { scene.counts.restored } else { scene.counts.closed };
            if done == self.plan.orders || staff.running() == 0 || Instant::now() > self.until {
                return Ok(());
            }
            sleep(FRAME).await;
        }
    }

    fn scene(&self, shop: &Shop) -> Result<Scene, Fault> {
        let (counts, sweeping, latest) = (shop.count()?, shop.sweeping()?, shop.latest()?);
        Ok(Scene { lock: self.store.is_some(), replicas: self.plan.replicas, counts, sweeping, latest })
    }
}
