//! The commands that swap and read records.

use std::{
    collections::HashMap,
    sync::LazyLock,
    time::{SystemTime, UNIX_EPOCH},
};

use bandog_core::{Holding, Key, Line, Swap};
use bandog_redis_net::{Script, ScriptForm};
use redis::{Cmd, RedisWrite};

use super::setnx;
use crate::{
    names::{Channel, HistoryKey, IndexKey, RecordKey},
    options::{Format, Layout},
};

pub(super) static SWAP: LazyLock<Script> = script!("offer.lua", "holdings.lua", "swap.lua");
pub(super) static READ: LazyLock<Script> = script!("holdings.lua", "read.lua");

/// The scripts of this module.
pub(super) static SCRIPTS: [&LazyLock<Script>; 2] = [&SWAP, &READ];

/// The latest time that Lua's numbers represent exactly, in milliseconds since 1970.
const LATEST_TIME_MS: u128 = 1 << 53;

/// The call of `swap.lua` for these swaps. The format has the layout of the locks of their holdings.
pub(crate) fn swap(swaps: &[Swap], format: Format, form: ScriptForm) -> Cmd {
    // The script refers to each holding by a number. The first holding has the number 1. The number 0 means that a swap
    // requires no holding.
    let mut numbers = HashMap::new();
    let mut holdings = Vec::new();
    let holding_numbers: Vec<usize> = swaps
        .iter()
        .map(|swap| match &swap.held {
            None => 0,
            Some(held) => *numbers.entry(held).or_insert_with(|| {
                holdings.push(held);
                holdings.len()
            }),
        })
        .collect();
    // The number of swaps that are not plain (see `is_plain`), and the number of the history lines that these swaps
    // write.
    let (changes, lines) = swaps
        .iter()
        .filter(|swap| !is_plain(swap))
        .fold((0, 0), |(changes, lines), swap| (changes + 1, lines + lines_of(swap).len()));
    // The swaps that notify, each with its number. The first swap has the number 1.
    let notifying = || (1..).zip(swaps).filter(|(_, swap)| swap.notifies);
    let keys = 1 + holdings.len() + swaps.len() + changes;
    let args = 1 + holdings.len() + 5 * swaps.len() + changes + 2 * lines + 2 * notifying().count();
    let size = holdings.iter().map(|held| held.key.as_str().len() + 70).sum::<usize>() + 32;
    let script = if format.layout == Layout::Setnx { &setnx::SWAP } else { &SWAP };
    let mut cmd = script.call(form, keys, keys + args, size + swaps.iter().map(size_of_swap).sum::<usize>());
    cmd.write_arg_fmt(IndexKey(swaps.first().map_or("", |swap| swap.key.as_str()), format));
    for held in &holdings {
        cmd.arg(held.key.as_str());
    }
    for swap in swaps {
        cmd.write_arg_fmt(RecordKey(swap.key.as_str(), format));
        if !is_plain(swap) {
            cmd.write_arg_fmt(HistoryKey(swap.key.as_str(), format));
        }
    }
    cmd.arg(holdings.len());
    for held in holdings {
        cmd.write_arg_fmt(held.id);
    }
    for (swap, holding_number) in swaps.iter().zip(holding_numbers) {
        swap_arguments(&mut cmd, swap, holding_number);
    }
    for (number, swap) in notifying() {
        let number: usize = number;
        cmd.arg(number).write_arg_fmt(Channel(swap.key.as_str()));
    }
    cmd
}

/// The call of `read.lua` for these records and holdings. The format has the layout of the locks of the holdings.
pub(crate) fn read(keys: &[Key], holdings: &[Holding], format: Format, form: ScriptForm) -> Cmd {
    let size = keys.iter().map(|key| key.as_str().len() + 24).sum::<usize>()
        + holdings.iter().map(|held| held.key.as_str().len() + 70).sum::<usize>();
    let script = if format.layout == Layout::Setnx { &setnx::READ } else { &READ };
    let mut cmd = script.call(form, keys.len() + holdings.len(), keys.len() + 2 * holdings.len(), size);
    for key in keys {
        cmd.write_arg_fmt(RecordKey(key.as_str(), format));
    }
    for held in holdings {
        cmd.arg(held.key.as_str());
    }
    for held in holdings {
        cmd.write_arg_fmt(held.id);
    }
    cmd
}

/// Adds the arguments of one swap.
fn swap_arguments(cmd: &mut Cmd, swap: &Swap, holding_number: usize) {
    match swap.from {
        Some(version) => cmd.arg(version.get()),
        None => cmd.arg(""),
    };
    cmd.arg(millis(swap.not_before)).arg(holding_number);
    if is_plain(swap) {
        cmd.arg("=").arg(&swap.to);
        return;
    }
    match &swap.to {
        Some(value) => cmd.arg(swap.lines.len()).arg(value),
        None => cmd.arg(-1).arg(""),
    };
    cmd.arg(swap.key.as_str());
    for line in lines_of(swap) {
        cmd.arg(&line.slot).arg(&line.value);
    }
}

/// Whether the swap is plain: it replaces an existing record and writes no lines of history.
fn is_plain(swap: &Swap) -> bool {
    swap.from.is_some() && swap.to.is_some() && swap.lines.is_empty()
}

/// The lines of history that the swap writes. A deletion writes no lines.
fn lines_of(swap: &Swap) -> &[Line] {
    if swap.to.is_some() { &swap.lines } else { &[] }
}

/// The time in whole milliseconds since 1970, rounded up. 0 if the swap has no earliest time.
fn millis(not_before: Option<SystemTime>) -> u64 {
    let since = not_before.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    u64::try_from(since.as_nanos().div_ceil(1_000_000).min(LATEST_TIME_MS)).unwrap_or_default()
}

/// The approximate size of the arguments of one swap, in bytes.
fn size_of_swap(swap: &Swap) -> usize {
    let lines = swap.lines.iter().map(|line| line.slot.len() + line.value.len() + 20);
    4 * swap.key.as_str().len() + swap.to.as_ref().map_or(0, String::len) + lines.sum::<usize>() + 110
}

#[cfg(test)]
mod tests;
