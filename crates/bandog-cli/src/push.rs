//! `bandog push`: adds elements to a work queue.

mod input;
mod lines;

use std::{
    ffi::OsString,
    io,
    os::unix::ffi::OsStrExt,
    time::{Duration, SystemTime},
};

use bandog::{
    Client,
    work::{MAX_PRIORITY, Pushed},
};
use bandog_cron::Time;
use serde::Serialize;

use crate::{
    console::report,
    durations,
    exit_code::ExitCode,
    fault::Fault,
    print::{self, Format},
    queue::open::{self, Queue},
    runtime,
    store::{self, Store},
};

/// Adds an element to a work queue, and prints its id.
///
/// The element is the text PAYLOAD, or the bytes of standard input: at most 1 MiB. Keep large data elsewhere, and push its
/// name. `bandog work` runs a command for each element, on one of the machines; a program takes them with the library
/// (`work_queue::<Vec<u8>>(NAME)?.codec(Bytes)`; elements that are JSON need no codec).
///
/// The first push creates the queue, and the database of `sqlite:`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The name of the queue: 1 to 1024 bytes of text; here it cannot begin with `-`.
    queue: String,
    /// The element; without it, or if it is `-`, standard input to its end. Write one that begins with `-` after `--`.
    #[arg(conflicts_with = "lines")]
    payload: Option<OsString>,
    /// Each line of standard input is an element, without the line feed. All options apply to each.
    #[arg(long, conflicts_with = "once")]
    lines: bool,
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    store: store::Args,
    #[command(flatten)]
    format: Format,
}

/// The options of an element.
#[derive(Debug, clap::Args)]
struct Options {
    /// Deliver it after this time.
    #[arg(long, value_name = "DUR", value_parser = durations::wait, conflicts_with = "at")]
    after: Option<Duration>,
    /// Deliver it at this time, as RFC 3339.
    #[arg(long, value_name = "RFC3339")]
    at: Option<Time>,
    /// Of all pushes with this ID, one adds an element within --window, also if the element is done meanwhile. The others
    /// print its id. From 1 to 255 bytes.
    #[arg(long, value_name = "ID")]
    once: Option<String>,
    /// The time for which --once remembers the ID.
    #[arg(long, value_name = "DUR", value_parser = durations::wait, default_value = "1d", requires = "once")]
    window: Duration,
    /// Elements with a greater priority are delivered first: 0 to 9.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=i64::from(MAX_PRIORITY)))]
    priority: u8,
    /// Elements with the same KEY are delivered one after another, in the order of their pushes. From 1 to 255 bytes.
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// A name and a text that travel with the element, such as traceparent=00-…; may be repeated. At most 4 KiB.
    #[arg(long = "header", value_name = "NAME=TEXT", value_parser = header)]
    headers: Vec<(String, String)>,
}

/// Parses a header.
fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write it like NAME=TEXT")?;
    Ok((name.to_owned(), value.to_owned()))
}

const HELP: &str = "\
Output: the id of the element; with --lines one id on a line for each.

Fields of --json, one object per element: id, new (false: --once has found an earlier one).

Exit codes:
    0  pushed, or --once has found an earlier element
   64  wrong name, option or URL, more than 1 MiB, or a store without work queues
   69  the store does not answer; the message says whether the element may have been pushed
   71  standard input cannot be read
   77  the store refuses

With --lines, elements are pushed in batches. After an error, the message says how many lines
were pushed.

Examples:
  bandog push mails 'to: ann'
  ./order | bandog push orders --once \"order-$number\"     safe to repeat
  bandog push reports 'weekly' --after 10m --priority 9
  bandog push accounts \"$change\" --key \"$account\"         the changes of an account in their order
  find . -name '*.jpg' | bandog push thumbnails --lines";

/// An element as JSON.
#[derive(Debug, Serialize)]
struct Object {
    id: String,
    new: bool,
}

/// Adds the elements. Wrong arguments are reported before any I/O.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let store = Store::of(&args.store)?;
    let client = store.client(store.options()?)?;
    let queue = open::queue(&client, &args.queue, &store)?;
    runtime::block_on_with_io(async {
        let pusher = Pusher { queue, options: &args.options, format: args.format, store: &store };
        let code = match &args.payload {
            _ if args.lines => pusher.push_lines(&args.queue).await?,
            Some(text) if text != "-" => pusher.push(text.as_bytes().to_vec()).await?,
            Some(_) | None => pusher.push(input::whole().await?).await?,
        };
        close(&client).await;
        Ok(code)
    })
}

/// Closes a client. If the store does not answer, its rows stay until their ttl is over.
async fn close(client: &Client) {
    let _ = tokio::time::timeout(crate::lock::EXIT_TIMEOUT, client.close()).await;
}

struct Pusher<'a> {
    queue: Queue,
    options: &'a Options,
    format: Format,
    store: &'a Store,
}

impl Pusher<'_> {
    /// Pushes one element.
    async fn push(&self, payload: Vec<u8>) -> Result<ExitCode, Fault> {
        let Options { after, at, once, window, priority, key, headers } = self.options;
        let mut push = self.queue.push(&payload).priority(*priority);
        if let Some(delay) = after {
            push = push.after(*delay);
        }
        if let Some(time) = at {
            push = push.at(SystemTime::from(*time));
        }
        if let Some(key) = key {
            push = push.key(key);
        }
        if let Some(id) = once {
            push = push.once(id, *window);
        }
        for (name, value) in headers {
            push = push.header(name, value);
        }
        let pushed = push.await.map_err(|error| self.fault(&error))?;
        let printed = print::done(self.print(pushed));
        if !pushed.is_new {
            report("this element was pushed before (--once)");
        }
        printed
    }

    /// Pushes elements in one step.
    async fn push_all(&self, payloads: &[Vec<u8>]) -> Result<Vec<Pushed>, Fault> {
        let Options { after, at, priority, key, headers, .. } = self.options;
        let mut push = self.queue.push_all(payloads).priority(*priority);
        if let Some(delay) = after {
            push = push.after(*delay);
        }
        if let Some(time) = at {
            push = push.at(SystemTime::from(*time));
        }
        if let Some(key) = key {
            push = push.key(key);
        }
        for (name, value) in headers {
            push = push.header(name, value);
        }
        push.await.map_err(|error| self.fault(&error))
    }

    /// Prints the id of an element.
    fn print(&self, Pushed { id, is_new }: Pushed) -> io::Result<()> {
        match self.format.json {
            true => print::json(&Object { id: id.to_string(), new: is_new }),
            false => print::line(&id.to_string()),
        }
    }

    fn fault(&self, error: &bandog::Error) -> Fault {
        let fault = self.store.fault(error);
        match (error.maybe_applied(), &self.options.once) {
            (false, _) => fault,
            (true, Some(_)) => {
                fault.with_line("it may have been pushed; with the same --once, pushing again is harmless")
            }
            (true, None) => fault.with_line("it may have been pushed; --once makes a repeated push harmless"),
        }
    }
}
