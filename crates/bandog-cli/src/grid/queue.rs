//! `bandog grid queue`: adds elements to a queue, takes them out, and gives them to a command.

use std::time::Duration;

use bandog::grid::{Deque, codec::Bytes};
use clap::ValueEnum;

use super::{
    call::{Call, Limit, Of, Trouble, apply},
    verbs::each,
    work,
};
use crate::{durations, exit_code::ExitCode, fault::Fault, print};

pub(super) const HELP: &str = "\
Output of `pop` and `pop-back`: the element, which is removed when it is printed.

The command of `work`:
  It gets one element after the other: on standard input, as `pop` prints it but without a
  line end; with codec text exactly its bytes. BANDOG_NAME is the queue, BANDOG_FENCE a
  number that is greater for each later delivery, so that a resource that keeps the
  greatest can refuse a delayed worker; BANDOG_DELIVERY is 1 for the first delivery of this
  element, and BANDOG_URL the URL without its password.
  If CMD exits with 0, the element is removed. If not, it goes back to the front of the
  queue, and the worker pauses: 0.25 s, and twice as long after each further failure, up to
  30 s. Let CMD exit with 0 and move an element elsewhere after some deliveries.
  Meanwhile the element has a lease, which is renewed. If the worker dies, the kernel kills
  CMD, and another worker gets the element when the lease is over. If the lease is about to
  expire because the store does not answer, CMD and all its descendants are terminated:
  TERM first, KILL after a sixth of the lease.
  TERM, INT, HUP and QUIT end the worker: CMD is terminated in the same way, and its element
  goes back, whatever the exit code of CMD is.

Exit codes of `work`:
         0  --count or --idle ended it, and CMD has always exited with 0
         1  they ended it, and an element went back
        77  the codec cannot read an element; it goes back
  126, 127  CMD cannot be run, is not found; the element goes back
   128 + N  signal N ended the worker

Examples:
  bandog grid queue mails push 'to: ann' 'to: bob'   prints the number of elements
  bandog grid queue mails pop --wait 1m              waits for an element; 75 if none came
  bandog grid queue mails work -- ./send-mail
  bandog grid queue mails work --idle 0s -- ./send-mail   until the queue is empty
  bandog grid queue jobs work --codec json -- sh -c 'curl -d @- \"$API?fence=$BANDOG_FENCE\"'";

/// The arguments of `bandog grid queue`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    of: Of<Verb>,
    /// With `pop` and `pop-back`: how long to wait for an element.
    #[arg(long, value_name = "DUR", value_parser = durations::wait)]
    wait: Option<Duration>,
    /// With `work`: the time after which another worker gets the element if this one dies, 1s to 1d [default: 30s].
    #[arg(long, value_name = "DUR", value_parser = durations::lease)]
    lease: Option<Duration>,
    /// With `work`: end after this number of deliveries.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// With `work`: end if the queue had no element for this time; 0s empties it and ends.
    #[arg(long, value_name = "DUR", value_parser = durations::wait)]
    idle: Option<Duration>,
    #[command(flatten)]
    limit: Limit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Verb {
    /// V…: add elements at the end, and print the number of elements. If the answer is lost, this is repeated, and counts
    /// once.
    Push,
    /// V…: add elements at the front, one after the other.
    PushFront,
    /// Take out the first element, and print it.
    Pop,
    /// Take out the last element, and print it.
    PopBack,
    /// Print the number of elements that can be taken.
    Len,
    /// Print the elements that can be taken, and leave them there.
    List,
    /// -- CMD: give each element to a command.
    Work,
}

/// Runs the verb. Wrong arguments are reported before any I/O.
pub(super) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let Args { of, wait, lease, count, idle, limit } = args;
    let is_pop = matches!(of.verb, Verb::Pop | Verb::PopBack);
    if wait.is_some() && !is_pop {
        return Err(Fault::usage("--wait belongs to `pop` and `pop-back`; `work` has --idle"));
    }
    if of.verb == Verb::Work {
        let lease = lease.unwrap_or(work::LEASE);
        let Of { name, words, common, .. } = of;
        return work::run(&work::Order { name, words, common, lease, count: *count, idle: *idle });
    }
    if lease.is_some() || count.is_some() || idle.is_some() {
        return Err(Fault::usage("--lease, --count and --idle belong to `work`: bandog grid queue NAME work -- CMD"));
    }
    if is_pop && print::is_closed() {
        return Err(Fault::usage(
            "standard output is closed, so the element would be lost; redirect it to a file or a pipe",
        ));
    }
    apply(of, async |it| verb(it, of.verb, wait.unwrap_or_default(), *limit).await)
}

async fn verb(it: &mut Call<'_>, verb: Verb, wait: Duration, limit: Limit) -> Result<(), Trouble> {
    let queue: Deque<Vec<u8>, Bytes> = it.grid.deque(it.name)?.codec(Bytes).exact();
    match verb {
        Verb::Push => {
            let len = queue.push_all(&it.words.values()?).await?;
            it.output.number("count", len)?;
        }
        Verb::PushFront => {
            let mut len = 0;
            for element in it.words.values()? {
                len = queue.push_front(&element).await?;
            }
            it.output.number("count", len)?;
        }
        Verb::Pop | Verb::PopBack => {
            it.words.none()?;
            let taken = if verb == Verb::Pop { queue.take(wait).await? } else { queue.take_back(wait).await? };
            let Some(taken) = taken else { return Ok(()) };
            // The element is removed after it is printed, so a full disk loses no element.
            let printed = it.output.only(Some(taken.to_vec())).and_then(|()| it.output.flush());
            if let (Ok(()), true) = (&printed, it.output.has_read_all()) {
                taken.done().await?;
            } else {
                taken.release().await?;
            }
            printed?;
        }
        Verb::Len => {
            it.words.none()?;
            it.output.number("count", queue.len().await?)?;
        }
        Verb::List => {
            it.words.none()?;
            let output = &mut it.output;
            each(queue.stream(), limit, |element| Ok(output.element(&element)?)).await?;
        }
        Verb::Work => {} // `run` has run it.
    }
    Ok(())
}
