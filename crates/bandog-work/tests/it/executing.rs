//! Executors, and the results of elements.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bandog::{
    ErrorKind,
    testing::Store,
    work::{Backoff, ClientWork, Executor, Outcome, Phase, TaskCall, TaskError, TaskHandler, TaskRun},
};
use bandog_testkit::eventually_async;
use futures_util::future::join_all;

use crate::kit::{SECOND, queues};

fn executors() -> (Executor, Executor) {
    let store = Store::new();
    (store.client().executor("billing").unwrap(), store.client().executor("billing").unwrap())
}

/// A task that doubles a number.
fn double() -> TaskHandler {
    TaskHandler::new("double", |run: TaskRun, number: u32| async move {
        if number == 13 {
            return Err(format!("unlucky at attempt {}", run.attempt()));
        }
        tokio::time::sleep(Duration::from_millis(u64::from(number))).await;
        Ok(number * 2)
    })
}

fn call(number: u32) -> TaskCall<u32> {
    TaskCall::new("double", &number)
}

#[tokio::test(start_paused = true)]
async fn tasks_have_results() {
    let (ours, theirs) = executors();
    let workers = theirs.workers(8).task(double().deliveries(2)).start().unwrap();
    let calls = join_all((0..200).map(|number| ours.submit(call(number)).into_future())).await;
    for (number, task) in (0..).zip(calls) {
        let task = task.unwrap();
        match task.result(SECOND * 60).await {
            Ok(result) => assert_eq!(result, number * 2),
            Err(TaskError::Failed(error)) => assert_eq!((number, error.as_str()), (13, "unlucky at attempt 2")),
            Err(error) => panic!("{number}: {error}"),
        }
        let again = ours.submitted::<u32>("double", task.id()).unwrap();
        assert_eq!(again.result(Duration::ZERO).await.is_ok(), number != 13);
    }
    workers.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn unknown_tasks_wait_for_a_program_that_knows_them() {
    let (ours, theirs) = executors();
    let other = TaskHandler::new("other", |_: TaskRun, (): ()| async { Ok::<_, std::fmt::Error>(()) });
    let old = theirs.workers(1).task(other).start().unwrap();
    let task = ours.submit(call(4)).await.unwrap();
    assert!(matches!(task.result(SECOND * 600).await, Err(TaskError::Late)));
    assert_eq!(task.status().await.unwrap().unwrap().phase, Phase::Ready);
    let new = theirs.workers(1).task(double()).start().unwrap();
    assert_eq!(task.result(SECOND * 60).await.unwrap(), 8);
    old.stop().await.unwrap();
    new.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn tasks_can_be_cancelled_and_have_a_timeout() {
    let (ours, theirs) = executors();
    let endless = TaskHandler::new("endless", |_: TaskRun, (): ()| async {
        std::future::pending::<()>().await;
        Ok::<_, std::fmt::Error>(())
    });
    let task = ours.submit(TaskCall::<()>::new("endless", &())).await.unwrap();
    assert!(task.cancel().await.unwrap());
    assert!(matches!(task.result(SECOND).await, Err(TaskError::Cancelled)));
    assert!(!task.cancel().await.unwrap());

    let limited = endless.timeout(SECOND * 5).deliveries(2).backoff(Backoff::fixed(SECOND).unwrap());
    let workers = theirs.workers(2).task(limited).start().unwrap();
    let task = ours.submit(TaskCall::<()>::new("endless", &())).await.unwrap();
    eventually_async(SECOND * 60, async || task.status().await.unwrap().unwrap().phase == Phase::Taken).await;
    assert!(task.cancel().await.unwrap());
    assert!(matches!(task.result(SECOND * 60).await, Err(TaskError::Cancelled)));

    let task = ours.submit(TaskCall::<()>::new("endless", &())).await.unwrap();
    let Err(TaskError::Failed(error)) = task.result(SECOND * 60).await else { panic!("the task does not end") };
    assert_eq!(error, "the task did not end within 5s");
    workers.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_slots_of_an_executor_are_shared_by_its_tasks() {
    let (ours, theirs) = executors();
    let (busy, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let mut workers = theirs.workers(3);
    for name in ["a", "b", "c", "d"] {
        let (busy, most) = (busy.clone(), most.clone());
        workers = workers.task(TaskHandler::new(name, move |_: TaskRun, (): ()| {
            let (busy, most) = (busy.clone(), most.clone());
            async move {
                most.fetch_max(busy.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(SECOND).await;
                busy.fetch_sub(1, Ordering::SeqCst);
                Ok::<_, std::fmt::Error>(())
            }
        }));
    }
    let workers = workers.start().unwrap();
    let names = ["a", "b", "c", "d"].into_iter().cycle().take(40);
    let tasks = join_all(names.map(|name| ours.submit(TaskCall::<()>::new(name, &())).into_future())).await;
    let begun = tokio::time::Instant::now();
    for task in tasks {
        task.unwrap().result(SECOND * 600).await.unwrap();
    }
    assert_eq!(most.load(Ordering::SeqCst), 3);
    assert!(begun.elapsed() < SECOND * 60, "{:?}", begun.elapsed());
    workers.until(tokio::time::sleep(SECOND)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn arguments_of_a_newer_version_make_a_call_dead() {
    let (ours, theirs) = executors();
    let workers = theirs.workers(1).task(double()).start().unwrap();
    let task = ours.submit(TaskCall::<u32>::new("double", &"a text")).await.unwrap();
    let Err(TaskError::Failed(error)) = task.result(SECOND * 60).await else { panic!("the call is not dead") };
    assert!(error.contains("TextJson") && !error.contains("a text"), "{error}");
    assert_eq!(task.status().await.unwrap().map(|row| (row.phase, row.attempt)), Some((Phase::Dead, 1)));
    workers.stop().await.unwrap();
    assert!(theirs.workers(1).start().is_err());
    assert!(theirs.workers(1).task(double()).task(double()).start().is_err());
}

#[tokio::test(start_paused = true)]
async fn results_of_elements_can_be_waited_for() {
    let (queue, other) = queues();
    let workers = other.workers(1).answer(|delivery: bandog::work::Delivery<String>| async move {
        Ok::<_, bandog::Error>(delivery.to_uppercase().into_bytes())
    });
    let kept = queue.push("a").keep_result(SECOND * 60).await.unwrap().id;
    assert_eq!(queue.result(kept, SECOND * 60).await.unwrap(), Some(Outcome::Done(b"A".to_vec())));
    let not_kept = queue.push("b").await.unwrap().id;
    assert_eq!(queue.result(not_kept, SECOND * 60).await.unwrap_err().kind(), ErrorKind::Lost);
    workers.stop().await.unwrap();
    let waiting = queue.push("c").keep_result(SECOND * 60).await.unwrap().id;
    assert_eq!(queue.result(waiting, SECOND * 60).await.unwrap(), None);
}
