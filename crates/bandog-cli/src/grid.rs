//! `bandog grid`: reads and writes the objects of programs: values, counters, maps, sets, lists, queues, topics and others.

mod call;
mod codec;
mod output;
mod queue;
mod verbs;
mod words;
mod work;

use std::time::Duration;

use clap::Subcommand;

use self::{
    call::{Limit, Of, apply},
    verbs::{
        BitsVerb, BloomVerb, CounterVerb, JournalVerb, ListVerb, MapVerb, MultimapVerb, SetVerb, SortedVerb, Timed,
        TopicVerb, ValueVerb,
    },
};
use crate::{durations, exit_code::ExitCode, fault::Fault};

/// Reads and writes the objects that programs share: values, maps, queues and others, on Redis.
///
/// They are the objects of the library's `grid`, and those of Redisson with the same type, name and codec. An object exists
/// while it has elements; the first write creates it. `bandog grid TYPE --help` has the verbs of a type.
///
/// --codec is the form of the bytes in the store, and of each ARG that is a key, value or element:
///
/// text   the text itself (Java: StringCodec)
///
/// json   a JSON text, such as 5, '"abc"' or '{"a":1}'; it is stored in one form, so equal values are equal bytes. A key of
/// a map is text (the default codec of the library, TextJson)
///
/// kryo5  a JSON scalar (Java: Kryo5Codec, the default of Redisson): 5 is an Integer, 5L a Long, 5.0 a Double, '"abc"' a
/// String
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    object: Object,
}

const HELP: &str = "\
Output:
  One result on each line: an element, a number, KEY<TAB>VALUE, SCORE<TAB>VALUE
  or ID<TAB>VALUE.
  Control characters are escaped, except in the result of a get or pop that goes to a
  file or a pipe. --json prints each result exactly, as an object on a line: value, key,
  score, count, rank, bit, id; with kryo5 also type, the Java type. A result that the codec
  cannot read is reported on standard error (with --json also printed, as `error`).

Exit codes:
    0  done
   64  wrong arguments, name or URL, or the store has no objects
   69  the store does not answer; after a write, the message says whether it may be applied
   75  no: missing, empty, not a member, not replaced; nothing is printed
   77  the store refuses, the name has data of another type, or the codec cannot read a result

Examples:
  bandog grid value motd set 'closed until noon' --ttl 4h
  bandog grid counter hits add 1
  bandog grid map stock put apple 5
  bandog grid map users get ann --codec json | jq .mail
  bandog grid set seen add -- -x                 an ARG that begins with `-`
  bandog grid queue mails push 'to: ann' 'to: bob'
  bandog grid queue mails work -- ./send-mail    each element to a command, none is lost";

#[derive(Debug, Subcommand)]
enum Object {
    /// One value (Redisson: RBucket).
    #[command(after_help = "\
Examples:
  bandog grid value motd set 'closed until noon' --ttl 4h
  bandog grid value motd get || echo 'no message'
  bandog grid value leader swap node-1 node-2    75: another program was faster")]
    Value {
        #[command(flatten)]
        of: Of<ValueVerb>,
        /// With `set`: delete the value after this time. Without it, the value has no ttl.
        #[arg(long, value_name = "DUR", value_parser = durations::lease)]
        ttl: Option<Duration>,
    },
    /// A counter of 64 bits (RAtomicLong).
    #[command(after_help = "\
Examples:
  bandog grid counter hits add 1                 prints the sum
  bandog grid counter hits add -5
  [ $(bandog grid counter calls:ann add 1 --ttl 1m) -le 100 ] || echo 'too many calls'")]
    Counter {
        #[command(flatten)]
        of: Of<CounterVerb>,
        /// With `add`: the ttl of a new counter. A counter that exists keeps its own.
        #[arg(long, value_name = "DUR", value_parser = durations::lease)]
        ttl: Option<Duration>,
    },
    /// Values by key (RMap).
    #[command(after_help = "\
Examples:
  bandog grid map stock put apple 5
  bandog grid map stock get apple
  bandog grid map stock list | sort              KEY<TAB>VALUE
  bandog grid map owners insert-new job-7 \"$HOSTNAME\" && ./job-7
  bandog grid map stock list --json | jq -r 'select(.value == \"0\") | .key'
  bandog grid map sessions put ann 7 --timed --idle 30m")]
    Map {
        #[command(flatten)]
        of: Of<MapVerb>,
        #[command(flatten)]
        timed: Timed,
        #[command(flatten)]
        limit: Limit,
    },
    /// Members, each once (RSet).
    #[command(after_help = "\
Examples:
  bandog grid set tags add new red               prints 2: both are new
  bandog grid set tags contains red && echo yes
  bandog grid set tags list")]
    Set {
        #[command(flatten)]
        of: Of<SetVerb>,
        #[command(flatten)]
        limit: Limit,
    },
    /// Elements with an index (RList).
    #[command(after_help = "\
An index counts from 0; a negative one counts from the end: -1 is the last element.

Examples:
  bandog grid list steps push order pay ship     prints 3, the length
  bandog grid list steps get -1
  bandog grid list steps list")]
    List {
        #[command(flatten)]
        of: Of<ListVerb>,
        #[command(flatten)]
        limit: Limit,
    },
    /// Members in the order of their scores (RScoredSortedSet).
    #[command(after_help = "\
Examples:
  bandog grid sorted board add 9.5 ann
  bandog grid sorted board top 10                SCORE<TAB>VALUE, the greatest first
  bandog grid sorted board rank ann              0 is the smallest score")]
    Sorted {
        #[command(flatten)]
        of: Of<SortedVerb>,
        #[command(flatten)]
        limit: Limit,
    },
    /// Several values for each key (RSetMultimapCache, RListMultimapCache).
    #[command(after_help = "\
Examples:
  bandog grid multimap groups add admin ann      each value of a key once
  bandog grid multimap groups get admin
  bandog grid multimap mails add ann hello --list")]
    Multimap {
        #[command(flatten)]
        of: Of<MultimapVerb>,
        /// The form whose values are lists: in the order of their insertions, and also equal ones.
        #[arg(long)]
        list: bool,
        #[command(flatten)]
        limit: Limit,
    },
    /// A sequence of bits (RBitSet).
    #[command(after_help = "\
Examples:
  bandog grid bits seats set 17                  prints the former bit: 0 or 1
  bandog grid bits seats get 17 && echo taken
  bandog grid bits seats count")]
    Bits {
        #[command(flatten)]
        of: Of<BitsVerb>,
    },
    /// A set that may report absent items as present, in little memory (RBloomFilter).
    #[command(after_help = "\
Examples:
  bandog grid bloom seen create 1000000 0.01     for a million items, with 1% of false positives
  bandog grid bloom seen add ann                 prints 1 if it is new
  bandog grid bloom seen contains ann && echo 'probably'")]
    Bloom {
        #[command(flatten)]
        of: Of<BloomVerb>,
    },
    /// Work for other programs (RQueue, RBlockingQueue, RDeque).
    #[command(after_help = queue::HELP)]
    Queue(queue::Args),
    /// Messages to the programs that are subscribed (RTopic).
    #[command(after_help = "\
Examples:
  bandog grid topic prices subscribe             until it is ended
  bandog grid topic prices subscribe --count 1   one message
  bandog grid topic prices publish 'apple 5'     prints the number of subscribers that get it")]
    Topic {
        #[command(flatten)]
        of: Of<TopicVerb>,
        /// With `subscribe`: end after this number of messages.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        count: Option<u64>,
    },
    /// Entries that stay, for groups of programs (RStream, RReliableTopic).
    #[command(after_help = "\
Examples:
  bandog grid journal payments append 'order 7'  prints the id of the entry
  bandog grid journal payments list              ID<TAB>VALUE
  bandog grid journal payments groups            GROUP<TAB>READY<TAB>TAKEN")]
    Journal {
        #[command(flatten)]
        of: Of<JournalVerb>,
        #[command(flatten)]
        limit: Limit,
    },
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Fault> {
    match &args.object {
        Object::Value { of, ttl } => apply(of, async |it| verbs::value(it, of.verb, *ttl).await),
        Object::Counter { of, ttl } => apply(of, async |it| verbs::counter(it, of.verb, *ttl).await),
        Object::Map { of, timed, limit } => apply(of, async |it| verbs::map(it, of.verb, timed, *limit).await),
        Object::Set { of, limit } => apply(of, async |it| verbs::set(it, of.verb, *limit).await),
        Object::List { of, limit } => apply(of, async |it| verbs::list(it, of.verb, *limit).await),
        Object::Sorted { of, limit } => apply(of, async |it| verbs::sorted(it, of.verb, *limit).await),
        Object::Multimap { of, list, limit } => apply(of, async |it| {
            let multimap = if *list { it.grid.list_multimap(it.name) } else { it.grid.set_multimap(it.name) };
            verbs::multimap(it, multimap?, of.verb, *limit).await
        }),
        Object::Bits { of } => apply(of, async |it| verbs::bits(it, of.verb).await),
        Object::Bloom { of } => apply(of, async |it| verbs::bloom(it, of.verb).await),
        Object::Queue(args) => queue::run(args),
        Object::Topic { of, count } => {
            if count.is_some() && of.verb == TopicVerb::Publish {
                return Err(Fault::usage("--count belongs to `subscribe`"));
            }
            apply(of, async |it| verbs::topic(it, of.verb, *count).await)
        }
        Object::Journal { of, limit } => apply(of, async |it| verbs::journal(it, of.verb, *limit).await),
    }
}
