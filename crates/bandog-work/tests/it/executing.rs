//! Executors, and the results of elements.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use bandog::{
    ErrorKind,
    testing::Store,
    work::{
        Backoff, ClientWork, Delivery, Executor, Outcome, Phase, TaskCall, TaskError, TaskHandler, TaskRun, WorkQueue,
    },
};
use bandog_testkit::eventually_async;
use futures_util::future::join_all;
use tokio::time::Instant;

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

/// The last call of a batch, of another task or of the same one, runs once when all others are done.
#[tokio::test(start_paused = true)]
async fn a_batch_ends_with_a_call() {
    let store = Store::new();
    let (ours, theirs) = (store.client().executor("billing").unwrap(), store.client().executor("billing").unwrap());
    let (is_lucky, reports) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let (lucky, count) = (is_lucky.clone(), reports.clone());
    let part = TaskHandler::new("part", move |_: TaskRun, number: u32| {
        let fails = number == 13 && !lucky.load(Ordering::SeqCst);
        async move { if fails { Err("unlucky") } else { Ok(number) } }
    });
    let report = TaskHandler::new("report", move |_: TaskRun, day: String| {
        count.fetch_add(1, Ordering::SeqCst);
        async move { Ok::<_, std::fmt::Error>(day + "!") }
    });
    let workers = theirs.workers(4).task(part.deliveries(1)).task(report).start().unwrap();
    let part = |number: u32| TaskCall::<u32>::new("part", &number);
    let monday = || TaskCall::<String>::new("report", &"Monday");

    let batch = ours.submit_all((10..20).map(part)).then(monday()).await.unwrap();
    for (number, part) in (10..).zip(&batch.parts) {
        assert_eq!(part.result(SECOND * 60).await.ok(), (number != 13).then_some(number));
    }
    assert!(matches!(batch.last.result(SECOND * 60).await, Err(TaskError::Late)));
    assert_eq!(batch.last.status().await.unwrap().unwrap().phase, Phase::Blocked);
    is_lucky.store(true, Ordering::SeqCst);
    let parts: WorkQueue<u32> = store.client().work_queue("billing/part").unwrap();
    assert_eq!(parts.retry_all().await.unwrap(), 1);
    assert_eq!(batch.last.result(SECOND * 60).await.unwrap(), "Monday!");
    assert_eq!(batch.parts[3].result(SECOND).await.unwrap(), 13);
    let again = ours.submitted::<String>("report", batch.last.id()).unwrap();
    assert_eq!(again.result(SECOND).await.unwrap(), "Monday!");
    assert!(!batch.last.cancel().await.unwrap());

    let same = ours.submit_all([1, 2].map(part)).then(part(3)).await.unwrap();
    assert_eq!(same.last.result(SECOND * 60).await.unwrap(), 3);
    let alone = ours.submit_all([4, 5].map(part)).await.unwrap();
    assert_eq!(alone[1].result(SECOND * 60).await.unwrap(), 5);

    let late = ours.submit_all([part(6)]).after(SECOND * 5).then(monday()).await.unwrap();
    assert!(late.last.cancel().await.unwrap());
    assert!(matches!(late.last.result(SECOND * 60).await, Err(TaskError::Cancelled)));
    assert_eq!(late.parts[0].result(SECOND * 60).await.unwrap(), 6);
    assert_eq!(reports.load(Ordering::SeqCst), 1);

    let kind = |ended: Result<_, bandog::Error>| ended.map(drop).unwrap_err().kind();
    assert_eq!(kind(ours.submit_all([] as [TaskCall<u32>; 0]).await), ErrorKind::Misused);
    assert_eq!(kind(ours.submit_all([part(1), call(2)]).await), ErrorKind::Misused);
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

/// A call that comes while another one waits asks at once.
#[tokio::test(start_paused = true)]
async fn a_result_that_is_there_comes_at_once_although_other_calls_wait() {
    let (queue, other) = queues();
    let workers = other.workers(2).answer(|delivery: Delivery<String>| async move {
        if *delivery == "slow" {
            tokio::time::sleep(SECOND * 30).await;
        }
        Ok::<_, std::io::Error>(b"answer".to_vec())
    });
    let slow = queue.push("slow").keep_result(SECOND * 60).await.unwrap().id;
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { queue.result(slow, SECOND * 60).await.unwrap() }
    });
    for _ in 0..5 {
        let fast = queue.push("fast").keep_result(SECOND * 60).await.unwrap().id;
        eventually_async(SECOND * 60, async || queue.find(fast).await.unwrap().unwrap().phase == Phase::Ended).await;
        let begun = Instant::now();
        assert!(matches!(queue.result(fast, SECOND * 10).await.unwrap(), Some(Outcome::Done(_))));
        assert!(begun.elapsed() < Duration::from_millis(50), "{:?}", begun.elapsed());
    }
    assert!(matches!(waiting.await.unwrap(), Some(Outcome::Done(_))));
    workers.stop().await.unwrap();
}
